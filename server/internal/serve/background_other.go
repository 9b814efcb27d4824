// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package serve

import "log/slog"

// inBackground calls f: threads have no priority of their own here.
func inBackground(_ *slog.Logger, f func() error) error { return f() }
