// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func Example() {
	store := memstore.New(memstore.Options{})
	login, err := sluice.New(store, "login", sluice.PerMinute(5))
	if err != nil {
		log.Fatal(err)
	}
	for range 6 {
		d, err := login.Take(context.Background(), "ann", 1)
		if err != nil {
			log.Fatal(err) // no decision was made
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second))
	}
	// Output:
	// true 4 0s
	// true 3 0s
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 12s
}

// Several limits are charged together: if one denies, none is charged.
func ExampleNew_severalLimits() {
	store := memstore.New(memstore.Options{})
	api, err := sluice.New(store, "api",
		sluice.MustParseLimit("3/min sliding-log"),
		sluice.MustParseLimit("1000/day fixed-window calendar UTC"))
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		d, err := api.Take(context.Background(), "ann", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, "by", api.Plan().Term(d.Binding).Name)
	}
	// Output:
	// true by sliding-log.min
	// true by sliding-log.min
	// true by sliding-log.min
	// false by sliding-log.min
}

// The bytes of an answer are known only once it is sent.
func ExampleLimiter_Settle() {
	store := memstore.New(memstore.Options{})
	video, err := sluice.New(store, "video", sluice.MustParseLimit("100MB/min sliding-counter debt 100MB"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for range 3 {
		d, err := video.Take(ctx, "ann", 1e6) // an estimate
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("allowed:", d.Allowed)
		if !d.Allowed {
			continue
		}
		if _, err := video.Settle(ctx, "ann", d, 60e6); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// allowed: true
	// allowed: true
	// allowed: false
}

// Allow only says whether a request passes.
func ExampleLimiter_Allow() {
	lim, err := sluice.New(memstore.New(memstore.Options{}), "login", sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		ok, err := lim.Allow(context.Background(), "ann")
		if err != nil {
			log.Fatal(err) // no decision was made
		}
		fmt.Println(ok)
	}
	// Output:
	// true
	// true
	// false
}

// A request over several keys is decided as a whole. The decision names the key that denies.
func ExampleTakeAll() {
	store := memstore.New(memstore.Options{})
	users, err := sluice.New(store, "user", sluice.PerMinute(5))
	if err != nil {
		log.Fatal(err)
	}
	tenants, err := sluice.New(store, "tenant", sluice.PerMinute(2))
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"ann", "bob", "cho"} {
		d, err := sluice.TakeAll(context.Background(), store, users.Of(user, 1), tenants.Of("acme", 1))
		if err != nil {
			log.Fatal(err)
		}
		if !d.Allowed {
			fmt.Printf("%s: the %s %s has used up its %v\n", user, d.Scope, d.Key, d.Limit)
			continue
		}
		fmt.Println(user, "passes")
	}
	// Output:
	// ann passes
	// bob passes
	// cho: the tenant acme has used up its token-bucket.min: 2/min burst 2
}

// At most 3 exports of a customer run at once, on all machines that share the store.
func ExampleSlots_Wait() {
	exports, err := sluice.NewSlots(memstore.New(memstore.Options{}), "exports", sluice.SlotLimit{Cap: 3, TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	export := func(ctx context.Context, customer string) error {
		held, release, err := exports.Wait(ctx, customer, 1) // waits for a free slot
		if err != nil {
			return err
		}
		defer release()
		// However long it takes, the slot is renewed. If it is lost, held ends.
		fmt.Println("exporting for", customer, held.Err())
		return nil
	}
	if err := export(context.Background(), "acme"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// exporting for acme <nil>
}

// A log of the requests to a store.
func ExampleObserve() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // the output below cannot contain the time
		}
		return a
	}})
	logger := slog.New(handler)
	store := sluice.Observe(memstore.New(memstore.Options{}), sluice.Hooks{
		Take: func(ctx context.Context, req *sluice.Request) (context.Context, func(sluice.Decision, error)) {
			return ctx, func(d sluice.Decision, err error) {
				if err != nil {
					logger.LogAttrs(ctx, slog.LevelError, "no decision", slog.String("scope", req.Plan.Scope()), slog.Any("error", err))
					return
				}
				logger.LogAttrs(ctx, slog.LevelInfo, "decided", slog.String("op", req.Op.String()), slog.String("scope", req.Plan.Scope()), slog.String("key", req.Key),
					slog.Bool("allowed", d.Allowed), slog.Int64("remaining", d.Remaining))
			}
		},
	})
	login, err := sluice.New(store, "login", sluice.PerMinute(1))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		if _, err := login.Take(context.Background(), "ann", 1); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// level=INFO msg=decided op=take scope=login key=ann allowed=true remaining=0
	// level=INFO msg=decided op=take scope=login key=ann allowed=false remaining=0
}

func ExampleParseLimit() {
	for _, text := range []string{"100/min", "per-user: 10/s burst 20", "10/min burts 3", "0/min sliding-log"} {
		limit, err := sluice.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit.Quota, "per", limit.Window, limit.Filled().Algorithm)
	}
	// Output:
	// 100 per 1m0s token-bucket
	// 10 per 1s token-bucket
	// sluice: limit "10/min burts 3": column 8: unknown word "burts"; use an algorithm (token-bucket, leaky-bucket, fixed-window, sliding-log, sliding-counter, sliding-histogram) or an option such as burst 20
	// sluice: limit "0/min sliding-log": sluice: limit: Quota: 0 must be 1 to 9007199254740991 units
}

// An algorithm has its own options, and no others. A limit is written in Go and in text alike.
func ExampleAlgorithm() {
	for _, limit := range []sluice.Limit{
		sluice.PerMinute(100).WithBurst(20),
		sluice.PerMinute(100).WithAlgorithm(sluice.TokenBucket{Refill: sluice.Interval}),
		sluice.PerSecond(10).WithBurst(30).WithAlgorithm(sluice.LeakyBucket{DelayAfter: 5}),
		{Quota: 1000, Algorithm: sluice.FixedWindow{Calendar: sluice.Month, Zone: "Asia/Seoul"}},
		sluice.PerMinute(5).WithAlgorithm(sluice.SlidingLog{}),
		sluice.PerHour(5000).WithAlgorithm(sluice.SlidingCounter{SubWindows: 60, Whole: true}),
		sluice.PerDay(100_000).WithAlgorithm(sluice.SlidingHistogram{}),
		sluice.PerMinute(20).WithAlgorithm(sluice.Block{For: 10 * time.Minute}),
	} {
		if err := limit.Validate(); err != nil {
			log.Fatal(err)
		}
		fmt.Println(limit)
		if window, ok := limit.Algorithm.(sluice.FixedWindow); ok {
			fmt.Println("of each", window.Calendar, "in", window.Zone)
		}
	}
	// Output:
	// 100/min burst 20
	// 100/min interval-refill
	// 10/s burst 30 leaky-bucket delay-after 5
	// 1000/month fixed-window calendar Asia/Seoul
	// of each month in Asia/Seoul
	// 5/min sliding-log
	// 5000/hour sliding-counter sub-windows 60 whole
	// 100000/day sliding-histogram
	// 20/min block 10min
}

// A customer who has used up the units of the minute buys 50 units, which last for a day.
func ExampleLimiter_Add() {
	store := memstore.New(memstore.Options{})
	api, err := sluice.New(store, "api", sluice.MustParseLimit("10/min credit 50 credit-for 24h"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := api.Take(ctx, "ann", 10); err != nil {
		log.Fatal(err)
	}
	d, err := api.Add(ctx, "ann", 50)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("given:", -d.Spent, "left:", d.Remaining)
	d, err = api.Take(ctx, "ann", 45) // 40 of credit, 5 of the bucket
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("allowed:", d.Allowed, "left:", d.Remaining)
	// Output:
	// given: 50 left: 50
	// allowed: true left: 5
}

// A customer who has used 60 of 100 moves to a plan of 200.
func ExampleLimiter_Convert() {
	store := memstore.New(memstore.Options{})
	ctx := context.Background()
	for _, text := range []string{"calls: 100/h", "calls: 200/h"} {
		api, err := sluice.New(store, "api", sluice.MustParseLimit(text))
		if err != nil {
			log.Fatal(err)
		}
		if text == "calls: 100/h" {
			_, err = api.Take(ctx, "ann", 60)
		} else {
			_, err = api.Convert(ctx, "ann")
		}
		if err != nil {
			log.Fatal(err)
		}
		d, err := api.Peek(ctx, "ann", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Remaining)
	}
	// Output:
	// 40
	// 80
}
