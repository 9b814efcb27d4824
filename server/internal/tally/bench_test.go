// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally_test

import (
	"context"
	"net/netip"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// BenchmarkCount measures the counting of a request, beside a decision without counting.
func BenchmarkCount(b *testing.B) {
	c, err := config.Parse("test.yaml", []byte("rules: [{name: api, by: header.X-User, limits: 1000000000/s}]\n"))
	if err != nil {
		b.Fatal(err)
	}
	calls := make([]evaluate.Call, 1024)
	front := frontOf(b, c.Policy, memstore.New(memstore.Options{}))
	for i := range calls {
		front.Decide(context.Background(), (&policy.Request{
			Method: "GET", Path: "/", Headers: map[string][]string{"X-User": {strconv.Itoa(i)}}, Client: netip.MustParseAddr("192.0.2.1"),
		}).Attributes(), &calls[i])
	}
	var t tally.Tally
	t.Follow(c.Policy)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		t.Count(&calls[i%len(calls)].Event, tally.Cause{})
		i++
	}
}
