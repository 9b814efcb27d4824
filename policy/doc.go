// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds rules as plain data: which request is charged to which
// key under which limits. [Compile] checks all of them at once and makes a
// [Policy] that finds the rules of a request in a microsecond; [Evaluator] asks a
// store about a request and puts together its outcome.
//
// A request is whatever answers to [Attributes]: an HTTP request ([HTTP]), a
// call, a descriptor of a proxy. All rules that match it apply. Active ones
// are decided together, all or none, with one question to the store; what is
// only in shadow mode or as a candidate, is asked beside them and has no
// influence.
package policy
