// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// A database to which each client network may open two connections a minute, and exchange 10
// MB a second.
func Example() {
	database, err := net.Listen("tcp", "127.0.0.1:0") // stands for a real one
	if err != nil {
		log.Fatal(err)
	}
	defer hangUp(database)
	connections, err := sluice.Compile("db connections", sluice.MustParseLimit("connections: 2/min"))
	if err != nil {
		log.Fatal(err)
	}
	bytes, err := sluice.Compile("db bytes", sluice.MustParseLimit("bytes: 10MB/s"))
	if err != nil {
		log.Fatal(err)
	}
	decided := make(chan tcp.Event)
	store := memstore.New(memstore.Options{})
	front, err := tcp.New(tcp.Options{
		Upstream: database.Addr().String(),
		Store:    store, SlotStore: store,
		Limits:     tcp.Limits{Rate: connections, Bytes: bytes, Open: sluice.SlotLimit{Cap: 20}, Scope: "db", Key: network},
		OnDecision: func(e tcp.Event) { decided <- e },
	})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- front.Serve(l) }()

	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		e := <-decided
		fmt.Printf("%s %v %q\n", e.Key, e.Verdict, e.Limit)
		if err == nil {
			defer hangUp(c)
		}
	}
	if err := errors.Join(front.Close(), <-served); !errors.Is(err, tcp.ErrServerClosed) {
		log.Fatal(err)
	}
	// Output:
	// 127.0.0.1 allowed ""
	// 127.0.0.1 allowed ""
	// 127.0.0.1 denied-rate "connections"
}
