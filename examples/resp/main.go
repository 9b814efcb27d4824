// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command resp asks sluice by the Redis protocol, with go-redis.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	// max_burst 2, 3 in 3600 s: limited, limit, remaining, retry after, reset after
	d, err := client.Do(ctx, "CL.THROTTLE", "mail:42", 2, 3, 3600).Int64Slice()
	exit(err)
	fmt.Printf("go: limited %d, %d left\n", d[0], d[2])

	pipe := client.Pipeline() // decided in one batch
	first, second := pipe.Do(ctx, "SLUICE.TAKE", "llm", "ada", 100), pipe.Do(ctx, "SLUICE.TAKE", "llm", "ada", 100)
	_, err = pipe.Exec(ctx)
	exit(err)
	for _, take := range []*redis.Cmd{first, second} {
		d, err := take.Slice() // allowed, remaining, …, verdict, limit, receipt
		exit(err)
		fmt.Printf("go: %v by %v, %v left\n", d[5], d[6], d[1])
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
