// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package faults runs what real servers can do to a store, over rueidis.
package faults
