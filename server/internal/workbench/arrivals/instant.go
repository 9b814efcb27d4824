// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

var errTime = errors.New("no time from 1970 to 2112 that can be read")

const (
	second = int64(1e6) // in µs
	latest = 4500000000 * second
)

// clfLayout is the time of the common log format. A fraction of a second may follow in all
// layouts.
const clfLayout = "02/Jan/2006:15:04:05 -0700"

var layouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05", clfLayout}

// ParseTime reads an instant in µs since 1970: Unix seconds with decimals, whole ms, µs or ns by
// their size, RFC 3339 with a blank for the T and UTC where the zone is missing, or the time of
// the common log format.
func ParseTime(s string) (int64, error) {
	leap := int64(0)
	if i := strings.LastIndex(s, ":60"); i == 16 || i == 17 { // which is the next second
		s, leap = s[:i]+":59"+s[i+3:], second
	}
	at, ok := unix(s)
	for i := 0; !ok && i < len(layouts) && len(s) > 18; i++ {
		t, err := time.Parse(layouts[i], s)
		at, ok = t.UnixMicro(), err == nil && (!strings.HasSuffix(layouts[i], "MST") || t.Location() == time.UTC)
	}
	if !ok || at < 0 || at > latest {
		return 0, errTime
	}
	return at + leap, nil
}

// unix reads seconds with decimals, or whole ms, µs or ns: the largest of each unit is the year
// 5138.
func unix(s string) (at int64, ok bool) {
	whole, decimals, point := strings.Cut(s, ".")
	v, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return 0, false
	}
	switch at = int64(v); {
	case v >= 1e17:
		return at / 1000, !point
	case v >= 1e14:
		return at, !point
	case v >= 1e11:
		return at * 1000, !point
	case !point:
		return at * second, true
	}
	micros, err := strconv.ParseUint((decimals + "000000")[:6], 10, 63)
	rest := strings.Trim(decimals[min(len(decimals), 6):], "0123456789")
	return at*second + int64(micros), err == nil && rest == ""
}

// clf reads times of the common log format, and remembers the minute of the last one.
type clf struct {
	minute, zone string // 17/May/2015:10:05: and the zone with its blank
	start        int64
}

func (c *clf) parse(s string) (int64, error) {
	if len(s) != 26 {
		return ParseTime(s)
	}
	tens, ones := s[18]-'0', s[19]-'0'
	if s[:18] == c.minute && s[20:] == c.zone && tens < 6 && ones < 10 {
		return c.start + (int64(tens)*10+int64(ones))*second, nil
	}
	at, err := ParseTime(s)
	if err == nil && tens < 6 && ones < 10 {
		c.minute, c.zone, c.start = s[:18], s[20:], at-(int64(tens)*10+int64(ones))*second
	}
	return at, err
}
