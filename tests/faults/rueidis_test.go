// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/tests/faults"
)

func TestRueidis(t *testing.T) {
	client := faults.Client{Open: openRueidis, Answer: func(err error) (string, bool) {
		reply, ok := errors.AsType[*rueidis.RedisError](err)
		if !ok {
			return "", false
		}
		return reply.Error(), true
	}}
	client.Test(t)
}

// openRueidis returns the store at a URL or, for options that a URL does not have, one over a
// client.
func openRueidis(t *testing.T, at faults.Target, options redisstore.Options) faults.Store {
	t.Helper()
	if !at.Patient && !at.Steady {
		s, err := rueidisstore.Open(t.Context(), at.URL, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	u, err := redisurl.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	option, err := rueidisstore.ClientOption(u)
	if err != nil {
		t.Fatal(err)
	}
	option.AlwaysPipelining = at.Steady
	if at.Patient {
		option.ConnWriteTimeout, option.Dialer.Timeout, option.Dialer.KeepAlive = testkit.Ceiling, testkit.Ceiling, testkit.Ceiling
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	s, err := rueidisstore.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return faults.Owner{Store: s, Client: func() error {
		client.Close()
		return nil
	}}
}
