// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package amount_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/amount"
)

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{amount.Of(1, false), "1 request"},
		{amount.Of(200, false), "200 requests"},
		{amount.Of(150e6, true), "150 MB"},
		{amount.Of(1_250_000, true), "1.25 MB"},
		{amount.Of(1023, true), "1023 bytes"},
		{amount.Length(time.Minute), "minute"},
		{amount.Length(90 * time.Second), "90 seconds"},
		{amount.Length(36 * time.Hour), "36 hours"},
		{amount.Length(1), "1ns"},
		{amount.Lasting(time.Minute), "1 minute"},
		{amount.Lasting(15 * time.Minute), "15 minutes"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
