// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"time"

	"github.com/sluicegate/sluice"
)

// DefaultMaxKeys is how many keys are remembered where no number is named.
const DefaultMaxKeys = 1 << 16

// asker asks the store behind. Its errors are as a [sluice.Store]'s.
type asker interface {
	ask(ctx context.Context, req *sluice.Request) (sluice.Decision, error)
	askBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error
}

type nearOptions struct {
	Lease   func(*sluice.Plan) (sluice.LeaseTerms, bool)
	MaxKeys int
	Now     func() time.Time
}

// near passes every question on.
type near struct{ by asker }

func newNear(_ nearOptions, by asker) *near { return &near{by: by} }

func (n *near) take(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	return n.by.ask(ctx, req)
}

func (n *near) takeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	return n.by.askBatch(ctx, reqs, out)
}

func (n *near) plain(*sluice.Request) error { return nil }

func (n *near) forget(*sluice.Request) {}

func (n *near) giveBack(context.Context) error { return nil }

func (n *near) stats() (DenialStats, LeaseStats) { return DenialStats{}, LeaseStats{} }

// DenialStats is what became of denials that are remembered.
type DenialStats struct {
	// Answered is how many requests were denied from memory, and Asked how many
	// others, but for peeks, went to the store: one for each key charged.
	Answered, Asked uint64
	// Remembered is how many denials were kept, Evicted how many of them made
	// room for others before their end.
	Remembered, Evicted uint64
}

// LeaseStats is what became of units taken in advance.
type LeaseStats struct {
	// Allowed and Denied are the takes that were decided here, Asked the
	// questions to the store about takes that could be leased.
	Allowed, Denied, Asked uint64
	// Leased is how many units were taken in advance, Returned how many of
	// them were sent back unused, and Lost how many were neither used nor sent
	// back: their limit had come to an edge, or they could not be sent.
	Leased, Returned, Lost uint64
	// Untracked is how many takes found no room for their key and were asked
	// as they are.
	Untracked uint64
}
