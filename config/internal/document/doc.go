// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package document reads a YAML document key by key. One description of a key, a [Field], is the
// source of the reader, the JSON Schema and the page of reference. Every fault has its place.
package document
