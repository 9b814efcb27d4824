// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds rules as plain data: which request is charged to which key under
// which limits. [Compile] checks all of them at once and makes a [Policy], which finds the
// rules of a request in a microsecond. Package evaluate decides requests under a Policy with
// a store.
//
// A request is a value with [Attributes]: an HTTP request, an RPC, a proxy's descriptor. All
// rules that match it apply. Active rules are decided together, all or none, in one call of
// the store. Shadow rules and candidates are evaluated in the same call and have no influence.
//
// The files, in the order in which to read them; data follows the code that uses it:
//
//   - override.go: an override compiled alone
//   - compile.go: Compile, and the checks of a whole rule
//   - compilelevel.go: the key of a level and its limits
//   - compiletier.go: limits by tier
//   - compilecandidate.go: limits evaluated beside others
//   - compilelease.go: what can be leased
//   - compileanswer.go: the texts of answers
//   - compilematch.go: hosts, paths, fields and networks
//   - shape.go: limits that slow bodies down
//   - block.go: blocks and their text
//   - keyvalue.go: keys as people write them
//   - differences.go: why a rule does not match
//   - policy.go: Policy, Matches, and the search for the rules of a request
//   - key.go: the key of a request
//   - first.go: keys made of one part or another
//   - token.go: a token verified once
//   - index.go: rules by host, path, field and network
//   - compiled.go: rules and levels as compiled
//   - rule.go: Rule, Level and their parts
//   - debt.go: the debt of costs known afterwards
//   - match.go: Match
//   - pattern.go: path patterns
//   - path.go: paths in each way that servers read them
//   - cost.go: Cost and Response
//   - answer.go: Answer
//   - jitter.go: Jitter
//   - certificate.go: names in certificates
//   - descriptor.go: Envoy's descriptors
//   - part.go: Part
//   - fault.go: RuleErrors
//   - attributes.go: Attributes and their errors
package policy
