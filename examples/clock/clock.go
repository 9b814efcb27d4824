// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package clock sends codes by text message, 3 an hour for each phone number. Its test
// shows how time passes in a unit test: within testing/synctest an hour takes no time,
// and the program needs no clock of its own.
//
//	go -C examples test -v ./clock
package clock

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

var codes = sluice.Must(sluice.New(memstore.New(memstore.Options{}), "codes", sluice.PerHour(3)))

// SendCode sends a code, or says for how long there is none.
func SendCode(ctx context.Context, number string, send func()) error {
	d, err := codes.Take(ctx, number, 1)
	if err != nil {
		return err
	}
	if !d.Allowed {
		return fmt.Errorf("try again in %v", d.RetryAfter.Round(time.Second))
	}
	send()
	return nil
}
