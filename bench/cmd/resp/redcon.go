// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/redcon"
)

// serveRedcon answers CL.THROTTLE by one compare-and-swap in a word that its key selects.
func serveRedcon(address string) error {
	words, seed, began := make([]atomic.Int64, 1<<20), maphash.MakeSeed(), time.Now()
	return redcon.ListenAndServe(address, func(c redcon.Conn, cmd redcon.Command) {
		if !strings.EqualFold(string(cmd.Args[0]), "CL.THROTTLE") || len(cmd.Args) != 5 {
			c.WriteError("ERR unknown command")
			return
		}
		var n [3]int64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseInt(string(cmd.Args[i+2]), 10, 64); err != nil || n[i] < 1 {
				c.WriteError("ERR value is not an integer or out of range")
				return
			}
		}
		word := &words[maphash.Bytes(seed, cmd.Args[1])%uint64(len(words))]
		now, step := time.Since(began).Microseconds(), n[2]*1_000_000/n[1]
		room := step * (n[0] + 1)
		full := word.Load()
		next := max(full, now) + step
		limited, retry := int64(0), int64(-1)
		if next-now > room || !word.CompareAndSwap(full, next) {
			limited, retry = 1, (next-now-room+999_999)/1_000_000
			next -= step
		}
		c.WriteArray(5)
		for _, v := range [...]int64{limited, n[0] + 1, (room - (next - now)) / step, retry, (next - now + 999_999) / 1_000_000} {
			c.WriteInt64(v)
		}
	}, func(redcon.Conn) bool { return true }, func(redcon.Conn, error) {})
}
