// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package amount writes units and spans of time in words.
package amount

import (
	"fmt"
	"time"
)

// Of writes n bytes or requests: "200 requests", "1 request", "150 MB".
func Of(n int64, bytes bool) string {
	if bytes {
		for _, s := range []struct {
			n    int64
			name string
		}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}} {
			if n >= s.n && n%(s.n/100) == 0 {
				return fmt.Sprintf("%g %s", float64(n)/float64(s.n), s.name)
			}
		}
		return fmt.Sprintf("%d bytes", n)
	}
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// Length writes a window: "minute", "15 minutes".
func Length(d time.Duration) string {
	for _, u := range []struct {
		d    time.Duration
		name string
	}{
		{24 * time.Hour, "day"},
		{time.Hour, "hour"},
		{time.Minute, "minute"},
		{time.Second, "second"},
		{time.Millisecond, "millisecond"},
		{time.Microsecond, "microsecond"},
	} {
		if d == u.d {
			return u.name
		}
		if d%u.d == 0 {
			return fmt.Sprintf("%d %ss", d/u.d, u.name)
		}
	}
	return d.String()
}

// Lasting writes how long something lasts: "1 minute", where [Length] has "minute".
func Lasting(d time.Duration) string {
	text := Length(d)
	if text[0] < '0' || text[0] > '9' {
		return "1 " + text
	}
	return text
}
