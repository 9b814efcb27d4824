// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/faults"
	"github.com/sluicegate/sluice/internal/redisurl"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

var client = faults.Client{Open: open, Answer: answer}

func open(t *testing.T, at faults.Target, options redisstore.Options) faults.Store {
	t.Helper()
	if !at.Patient && !at.Steady {
		s, err := redisstore.Open(t.Context(), at.URL, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	target, err := redisurl.Parse(at.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	option, err := target.Option()
	if err != nil {
		t.Fatal(err)
	}
	if at.Patient {
		server := redistest.Server{Addr: strings.TrimPrefix(at.URL, "redis://")}
		option = server.Option()
	}
	option.AlwaysPipelining = at.Steady
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	s, err := rueidisstore.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return owner{s, client}
}

// owner is a store that closes its client, as a program does.
type owner struct {
	*redisstore.Store
	client rueidis.Client
}

func (o owner) Close() error {
	defer o.client.Close()
	return o.Store.Close()
}

func answer(err error) (string, bool) {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return "", false
	}
	return reply.Error(), true
}

func TestInvariant17SumOverNodes(t *testing.T)          { client.TestSumOverNodes(t) }
func TestInvariant17LinearizableOverNodes(t *testing.T) { client.TestLinearizableOverNodes(t) }
func TestInvariant19DenyCache(t *testing.T)             { client.TestDenyCache(t) }
func TestInvariant20Leases(t *testing.T)                { client.TestLeases(t) }
func TestInvariant22StoreDown(t *testing.T)             { client.TestStoreDown(t) }
func TestInvariant23Failover(t *testing.T)              { client.TestFailover(t) }
func TestLateAnswersAreGivenBack(t *testing.T)          { client.TestLateAnswersAreGivenBack(t) }
func TestNothingGrows(t *testing.T)                     { client.TestNothingGrows(t) }
func TestSpentIsReported(t *testing.T)                  { client.TestSpentIsReported(t) }
func TestWrappedConformance(t *testing.T)               { client.TestWrappedConformance(t) }
