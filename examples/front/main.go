// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command front limits a protocol of its own: a client that sends a line "USER WORD" gets the
// word back in capitals, three times a minute. docs/fronts.md explains it.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func main() {
	evaluator, err := evaluate.New(evaluate.Options{
		Store: memstore.New(memstore.Options{}),
		Rules: []policy.Rule{policy.NewRule("shout", policy.Header("User"), sluice.PerMinute(3))},
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:7000")
	if err != nil {
		log.Fatal(err)
	}
	for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
		go shout(evaluator, conn)
	}
}

func shout(evaluator *evaluate.Evaluator, conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the client is gone
	peer := netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr()
	var call evaluate.Call // used again for each line
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		user, word, _ := strings.Cut(lines.Text(), " ")
		request := &policy.Request{ // 1. what rules may know of it
			Path: "/shout", Client: peer, Headers: map[string][]string{"User": {user}}, Length: int64(len(word)),
		}
		evaluator.Decide(context.Background(), request.Attributes(), &call) // 2. decide; it may be delayed
		if !call.Verdict.Passes() {                                         // 3. answer in the protocol's words
			fmt.Fprintf(conn, "DENIED %s\n", call.AppendDetail(nil)) //nolint:errcheck // as below
			continue
		}
		n, err := fmt.Fprintln(conn, strings.ToUpper(word)) // 4. serve, and settle
		call.Settle(context.Background(), policy.Response{Status: 200, Read: int64(len(word)), Written: int64(n), Unseen: err != nil})
	}
}
