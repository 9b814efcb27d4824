// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package document reads a YAML document key by key. One description of a key, a [Field], gives the
// reader of its value, the JSON Schema and the page of reference. Every fault has its place.
package document
