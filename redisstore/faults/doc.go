// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package faults holds tests only: real servers are killed, stopped, slowed,
// filled and moved under load, behind the stores that programs wrap them in.
package faults
