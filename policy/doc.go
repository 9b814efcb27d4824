// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds rules as plain data: which request is charged to which
// key under which limits. [Compile] checks all of them at once and makes a
// [Policy] that finds the rules of a request in a microsecond; [Evaluator] decides a
// request under them with a store.
//
// A request is a value with [Attributes]: an HTTP request, an RPC, a proxy's
// descriptor. All rules that match it apply. Active rules are decided together, all or
// none, in one call of the store. Shadow rules and candidates are evaluated in the same
// call and have no influence.
package policy
