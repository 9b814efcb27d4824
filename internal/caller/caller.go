// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package caller tells whether the caller of a context has left.
package caller

import (
	"context"
	"time"
)

// Left returns nil while the caller of ctx waits, and otherwise the error of ctx. A
// deadline that has passed counts even if the timer of ctx has not run yet: two readers
// of one clock would otherwise disagree for as long as a timer is late.
func Left(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) { //nolint:forbidigo // a deadline is of that clock
		return context.DeadlineExceeded
	}
	return nil
}
