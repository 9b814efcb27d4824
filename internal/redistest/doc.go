// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redistest starts real Redis and Valkey servers for tests: on free
// ports of 127.0.0.1, with their files in the test's directory, and stopped
// when the test ends.
package redistest
