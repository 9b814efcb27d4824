// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"testing"

	"github.com/sluicegate/sluice/internal/redistest/clienttest"
)

func TestLateOperationsAreUndone(t *testing.T) { clienttest.LateOperationsAreUndone(t, open) }

func TestLateCallersAreUndone(t *testing.T) { clienttest.LateCallersAreUndone(t, open) }

func TestUnsent(t *testing.T) { clienttest.Unsent(t, open) }

func TestWordsToAClosedStore(t *testing.T) { clienttest.WordsToAClosedStore(t, open) }

func TestCallersThatLeave(t *testing.T) { clienttest.CallersThatLeave(t, open) }

func TestOutagesLeaveNothing(t *testing.T) { clienttest.OutagesLeaveNothing(t, open) }

func TestNoGoroutinePerCall(t *testing.T) { clienttest.NoGoroutinePerCall(t, open) }
