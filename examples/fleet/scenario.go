// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
)

// scenario is a course of requests and mishaps.
type scenario struct {
	name string
	conf *string
	play func(ctx context.Context, f *fleet, user string) (tally, error)
}

var scenarios = []scenario{
	{"shared store", &anyNode, undisturbed},
	{"shared store, node killed and restarted", &anyNode, restarted},
	{"sticky sessions", &sameNode, undisturbed},
	{"sticky sessions, node killed", &sameNode, moved},
}

// undisturbed asks for one more than the quota.
func undisturbed(ctx context.Context, f *fleet, user string) (tally, error) {
	return ask(ctx, f.url, user, quota+1)
}

// restarted asks for one more than the quota; a node is killed after the first
// third and restarted after the second.
func restarted(ctx context.Context, f *fleet, user string) (tally, error) {
	const third = quota / 3
	first, err := ask(ctx, f.url, user, third)
	if err != nil {
		return first, err
	}
	f.nodes[0].kill()
	second, err := ask(ctx, f.url, user, third)
	if err != nil {
		return second, err
	}
	if err := f.startNode(ctx, 0); err != nil {
		return second, err
	}
	third3, err := ask(ctx, f.url, user, quota+1-2*third)
	return first.plus(second).plus(third3), err
}

// moved asks for one more than the quota, kills the node that answered, and
// asks for as many again.
func moved(ctx context.Context, f *fleet, user string) (tally, error) {
	first, err := ask(ctx, f.url, user, quota+1)
	if err != nil {
		return first, err
	}
	killed := false
	for i, n := range f.nodes {
		if first.by[f.name(i)] > 0 {
			n.kill()
			killed = true
		}
	}
	if !killed {
		return first, fmt.Errorf("none of the nodes answered: %v", first.by)
	}
	second, err := ask(ctx, f.url, user, quota+1)
	return first.plus(second), err
}

// name is what the i-th node calls itself.
func (f *fleet) name(i int) string {
	path := f.program[i]
	return fmt.Sprintf("%s-%d", path[strings.LastIndexByte(path, '/')+1:], f.nodes[i].cmd.Process.Pid)
}

// userOf returns a user for a scenario: the store is the same for all.
func userOf(name string) string { return strings.NewReplacer(" ", "-", ",", "").Replace(name) }
