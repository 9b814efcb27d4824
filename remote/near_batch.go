// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"github.com/sluicegate/sluice"
)

// takeBatch decides each of reqs, which are valid and in order, as take does, but
// none waits for another's answer. It asks for what it does not know in one batch,
// and once more, alone, for what is denied only because more was asked for than it
// needs. Its error means that none was decided.
func (n *near) takeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	flights := make([]flight, 0, len(reqs))
	defer func() { n.landAll(ctx, flights, errNoAnswer) }()
	for i := range reqs {
		out[i] = sluice.Result{}
		flights = append(flights, flight{batch: true, index: i})
		f := &flights[len(flights)-1]
		done := false
		if out[i].Err = n.ready(f, &reqs[i]); out[i].Err == nil {
			done, _ = n.begin(f, &out[i].Decision, 0)
		}
		if done || out[i].Err != nil {
			flights = flights[:len(flights)-1]
		}
	}
	err := n.flyAll(ctx, flights, out)
	if err != nil && len(flights) < len(reqs) {
		for i := range flights {
			out[flights[i].index].Err = notSent(err)
		}
		return nil
	}
	return err
}

// flyAll asks the store for all flights and lands them.
func (n *near) flyAll(ctx context.Context, flights []flight, out []sluice.Result) error {
	if len(flights) == 0 {
		return nil
	}
	asked, results := make([]sluice.Request, len(flights)), make([]sluice.Result, len(flights))
	for i := range flights {
		asked[i] = *flights[i].request()
	}
	if err := n.by.askBatch(ctx, asked, results); err != nil {
		n.landAll(ctx, flights, err)
		return err
	}
	for i := range flights {
		r := &out[flights[i].index]
		*r = results[i]
		n.end(ctx, &flights[i], r)
	}
	return nil
}

// landAll lands the flights that have not landed, for no one has an answer.
func (n *near) landAll(ctx context.Context, flights []flight, err error) {
	for i := range flights {
		n.land(ctx, &flights[i], &sluice.Result{Err: err})
	}
}
