// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package config reads sluice's file: listeners, upstreams, rules and the store. Reading is
// strict: an unknown key, a rule that can never match or a name used twice is a fault. All
// faults of a file are returned at once, each with its place and a remedy.
//
//	listen: 127.0.0.1:8080
//	upstream: http://127.0.0.1:3000
//	rules:
//	  - name: login
//	    match: {method: POST, path: /login}
//	    by: ip
//	    limits: 5/min
//
// Package cases runs given-expect cases on virtual time, so that a change of
// limits can be reviewed like code.
package config
