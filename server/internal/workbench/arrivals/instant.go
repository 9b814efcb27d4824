// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"strings"
	"time"
)

var (
	errTime   = errors.New("no time that can be read")
	errFuture = errors.New("the time is not from 1970 to 2112")
)

const (
	second = int64(1e6) // in µs
	day    = 86400 * second
	latest = 4500000000 * second // of a store, in the year 2112
)

// ParseTime reads an instant in µs since 1970: Unix seconds with decimals, whole ms, µs or ns by
// their size, RFC 3339 with a blank for the T and UTC where the zone is missing, or the time of
// the common log format.
func ParseTime(s string) (int64, error) {
	at, ok := int64(0), false
	switch {
	case len(s) > 11 && s[2] == '/':
		at, ok = new(clf).parse(s)
	case len(s) > 4 && s[4] == '-':
		at, ok = parseRFC3339(s)
	default:
		at, ok = parseUnix(s)
	}
	switch {
	case !ok:
		return 0, errTime
	case at < 0 || at > latest:
		return 0, errFuture
	}
	return at, nil
}

// digits reads a number of n digits at i.
func digits(s string, i, n int) (v int64, ok bool) {
	if i+n > len(s) {
		return 0, false
	}
	for _, c := range []byte(s[i : i+n]) {
		if c -= '0'; c > 9 {
			return 0, false
		}
		v = v*10 + int64(c)
	}
	return v, true
}

// fraction reads the decimals of a second in µs, and what is behind them.
func fraction(s string) (micros int64, rest string) {
	i, unit := 0, second
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		unit /= 10
		micros += int64(s[i]-'0') * unit
	}
	return micros, s[i:]
}

// parseUnix reads seconds with decimals, or whole ms, µs or ns.
func parseUnix(s string) (int64, bool) {
	whole, decimals, point := strings.Cut(s, ".")
	v, ok := digits(whole, 0, len(whole))
	if !ok || whole == "" || len(whole) > 18 && len(whole) != 19 {
		return 0, false
	}
	var micros int64
	if point {
		var rest string
		if micros, rest = fraction(decimals); rest != "" {
			return 0, false
		}
	}
	switch { // the largest is the year 5138 in each unit
	case v < 1e11:
		return v*second + micros, true
	case v < 1e14:
		return v * 1000, true
	case v < 1e17:
		return v, true
	}
	return v / 1000, true
}

// parseRFC3339 reads 2006-01-02T15:04:05.999Z07:00.
func parseRFC3339(s string) (int64, bool) {
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != 'T' && s[10] != ' ' && s[10] != 't' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	year, ok1 := digits(s, 0, 4)
	month, ok2 := digits(s, 5, 2)
	dayOf, ok3 := digits(s, 8, 2)
	clock, ok4 := timeOfDay(s[11:19])
	start, ok5 := dateOf(year, month, dayOf)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return 0, false
	}
	at, rest := start+clock, s[19:]
	if rest != "" && (rest[0] == '.' || rest[0] == ',') {
		var micros int64
		micros, rest = fraction(rest[1:])
		at += micros
	}
	switch rest {
	case "", "Z", "z", " UTC":
		return at, true
	}
	ahead, ok := zone(strings.TrimPrefix(rest, " "))
	return at - ahead, ok
}

// timeOfDay reads 15:04:05. A leap second is the first of the next minute.
func timeOfDay(s string) (int64, bool) {
	hour, ok1 := digits(s, 0, 2)
	minute, ok2 := digits(s, 3, 2)
	sec, ok3 := digits(s, 6, 2)
	return (hour*3600 + minute*60 + sec) * second, ok1 && ok2 && ok3 && hour < 24 && minute < 60 && sec <= 60
}

// dateOf returns the start of a day that exists.
func dateOf(year, month, dayOf int64) (int64, bool) {
	t := time.Date(int(year), time.Month(month), int(dayOf), 0, 0, 0, 0, time.UTC)
	return t.UnixMicro(), month >= 1 && month <= 12 && int64(t.Day()) == dayOf && int64(t.Month()) == month
}

// zone reads how far a zone is ahead of UTC: +0100 or +01:00.
func zone(s string) (int64, bool) {
	if len(s) == 6 && s[3] == ':' {
		s = s[:3] + s[4:]
	}
	if len(s) != 5 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	hours, ok1 := digits(s, 1, 2)
	minutes, ok2 := digits(s, 3, 2)
	ahead := (hours*60 + minutes) * 60 * second
	if s[0] == '-' {
		ahead = -ahead
	}
	return ahead, ok1 && ok2 && hours < 24 && minutes < 60
}

// clf reads times of the common log format, and remembers the minute of the last one.
type clf struct {
	minute, zone string // 17/May/2015:10:05 and +0000
	start        int64
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// parse reads 02/Jan/2006:15:04:05 -0700, whose decimals may be missing.
func (c *clf) parse(s string) (int64, bool) {
	if len(s) < 26 {
		return 0, false
	}
	sec, ok := digits(s, 18, 2)
	if !ok || sec > 60 || s[17] != ':' {
		return 0, false
	}
	micros, rest := int64(0), s[20:]
	if rest[0] == '.' {
		micros, rest = fraction(rest[1:])
	}
	if s[:17] == c.minute && rest == c.zone {
		return c.start + sec*second + micros, true
	}
	if s[2] != '/' || s[6] != '/' || s[11] != ':' || s[14] != ':' || len(rest) != 6 || rest[0] != ' ' {
		return 0, false
	}
	month := strings.Index(months, s[3:6])
	dayOf, ok1 := digits(s, 0, 2)
	year, ok2 := digits(s, 7, 4)
	clock, ok3 := timeOfDay(s[12:18] + "00")
	start, ok4 := dateOf(year, int64(month/3+1), dayOf)
	ahead, ok5 := zone(rest[1:])
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || month < 0 || month%3 != 0 {
		return 0, false
	}
	c.minute, c.zone, c.start = s[:17], rest, start+clock-ahead
	return c.start + sec*second + micros, true
}
