// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command boardposts is a message board on which everybody may post 5 times in
// each minute of the clock. A fixed window is the cheapest to keep and easiest
// to explain; a user that posts 5 times before the full minute and 5 times after it has
// posted 10 times in a row, which does no harm here.
//
//	go -C examples run ./boardposts
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func main() {
	b, err := newBoard(memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	for i := 1; i <= 6; i++ {
		wait, err := b.post(context.Background(), "ann", fmt.Sprintf("message %d", i))
		switch {
		case err != nil:
			log.Fatal(err)
		case wait > 0:
			fmt.Printf("message %d: you may post again in %.0f s\n", i, wait.Seconds())
		default:
			fmt.Printf("message %d: posted\n", i)
		}
	}
}

type board struct {
	limit *sluice.Limiter
	posts []string
}

func newBoard(store sluice.Store) (*board, error) {
	limit, err := sluice.New(store, "posts", sluice.MustParseLimit("5/min fixed-window"))
	if err != nil {
		return nil, err
	}
	return &board{limit: limit}, nil
}

// post adds a message, or returns how long its author must wait.
func (b *board) post(ctx context.Context, author, message string) (wait time.Duration, err error) {
	d, err := b.limit.Take(ctx, author, 1)
	if err != nil || !d.Allowed {
		return d.RetryAfter, err
	}
	b.posts = append(b.posts, author+": "+message)
	return 0, nil
}
