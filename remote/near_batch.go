// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"github.com/sluicegate/sluice"
)

// takeBatch decides each of reqs, which are valid and in order, as take does, but none
// waits for another's answer. It asks the store in one batch, and once more for each
// take that was denied only because it asked for more units than it needs. Its error
// means that none was decided.
func (n *near) takeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	calls := make([]nearCall, 0, len(reqs))
	defer func() { n.finishAll(ctx, calls, errNoAnswer) }()
	for i := range reqs {
		out[i] = sluice.Result{}
		calls = append(calls, nearCall{batch: true, index: i})
		c := &calls[len(calls)-1]
		done := false
		if out[i].Err = n.prepare(c, &reqs[i]); out[i].Err == nil {
			done, _ = n.begin(c, &out[i].Decision, 0)
		}
		if done || out[i].Err != nil {
			calls = calls[:len(calls)-1]
		}
	}
	err := n.sendAll(ctx, calls, out)
	if err != nil && len(calls) < len(reqs) {
		for i := range calls {
			out[calls[i].index].Err = notSent(err)
		}
		return nil
	}
	return err
}

// sendAll asks the store about all calls in one batch and finishes them.
func (n *near) sendAll(ctx context.Context, calls []nearCall, out []sluice.Result) error {
	if len(calls) == 0 {
		return nil
	}
	asked, results := make([]sluice.Request, len(calls)), make([]sluice.Result, len(calls))
	for i := range calls {
		asked[i] = *calls[i].request()
	}
	if err := n.store.askBatch(ctx, asked, results); err != nil {
		n.finishAll(ctx, calls, err)
		return err
	}
	for i := range calls {
		r := &out[calls[i].index]
		*r = results[i]
		n.finishOrResend(ctx, &calls[i], r)
	}
	return nil
}

// finishAll finishes with err the calls that are not finished.
func (n *near) finishAll(ctx context.Context, calls []nearCall, err error) {
	for i := range calls {
		n.finish(ctx, &calls[i], &sluice.Result{Err: err})
	}
}
