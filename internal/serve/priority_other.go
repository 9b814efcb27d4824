// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package serve

// yieldPriority does nothing: threads have no priority of their own here.
func yieldPriority() error { return nil }
