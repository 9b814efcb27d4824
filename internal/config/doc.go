// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads sluice's file: which rules, in front of what, on which
// store. Reading is strict: a key that is not known, a rule that can never
// match, a name used twice are faults, and all faults of a file come at once,
// each with its place and with what to write instead.
//
//	listen: 127.0.0.1:8080
//	upstream: http://127.0.0.1:3000
//	rules:
//	  - name: login
//	    match: {method: POST, path: /login}
//	    by: ip
//	    limits: 5/min
//
// [Lint] says every rule in plain words with its worst case and warns of what
// is allowed but makes no sense. [RunCases] runs given-expect cases on virtual
// time, so that a change of limits can be reviewed like code.
package config
