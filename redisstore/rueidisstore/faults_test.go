// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rueidisstore_test

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest/faults"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

var client = faults.Client{Open: open, Answer: answer}

func open(t *testing.T, at faults.Target, options redisstore.Options) faults.Store {
	t.Helper()
	if !at.Patient && !at.Steady {
		s, err := rueidisstore.Open(t.Context(), at.URL, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	client := dial(t, at.URL, func(o *rueidis.ClientOption) {
		o.AlwaysPipelining = at.Steady
		if at.Patient {
			o.ConnWriteTimeout, o.Dialer.KeepAlive = testkit.Ceiling, testkit.Ceiling
		}
	})
	s, err := rueidisstore.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return faults.Owner{Store: s, Client: func() error {
		client.Close()
		return nil
	}}
}

func answer(err error) (string, bool) {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return "", false
	}
	return reply.Error(), true
}

func TestFaults(t *testing.T) { client.Test(t) }
