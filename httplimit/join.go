// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// Join returns a Key of several: who differs in one of them has another
// budget. A request that lacks one of them lacks the key.
//
// The parts are joined by '|', and '|' and '%' within them are escaped as in
// URLs, so that no two lists of values make one key, whatever bytes they hold.
func Join(keys ...Key) Key {
	if len(keys) == 0 {
		return badKey("Join: no keys")
	}
	keys = append([]Key(nil), keys...)
	return Key{name: names(keys, " and "), compound: true, fault: faults(keys), value: func(r *http.Request) (string, error) {
		var parts [4]string // most keys have no more, and these need no memory
		values, size := parts[:0], len(keys)-1
		for _, k := range keys {
			v, err := k.Of(r)
			if err != nil {
				return "", err
			}
			values = append(values, v)
			size += len(v)
		}
		var b strings.Builder
		b.Grow(size)
		for i, v := range values {
			if i > 0 {
				b.WriteByte('|')
			}
			writeEscaped(&b, v)
		}
		return b.String(), nil
	}}
}

func writeEscaped(b *strings.Builder, s string) {
	for {
		i := strings.IndexAny(s, "%|")
		if i < 0 {
			b.WriteString(s)
			return
		}
		b.WriteString(s[:i])
		if s[i] == '%' {
			b.WriteString("%25")
		} else {
			b.WriteString("%7C")
		}
		s = s[i+1:]
	}
}

// FirstOf returns a Key of the first of keys that the request has: a user's id
// if it is known, or else the address. The value is preceded by which it was,
// as in "2:192.0.2.1", so that the value of one never equals that of another.
func FirstOf(keys ...Key) Key {
	if len(keys) == 0 {
		return badKey("FirstOf: no keys")
	}
	keys = append([]Key(nil), keys...)
	name := names(keys, " or ")
	return Key{name: name, compound: true, fault: faults(keys), value: func(r *http.Request) (string, error) {
		for i, k := range keys {
			v, err := k.Of(r)
			if err == nil {
				return strconv.Itoa(i+1) + ":" + v, nil
			}
			if !isMissing(err) {
				return "", err
			}
		}
		return "", nil
	}}
}

func isMissing(err error) bool {
	var bad *RequestError
	return errors.As(err, &bad) && bad.Missing
}

func names(keys []Key, sep string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(k.name)
	}
	return b.String()
}

func faults(keys []Key) error {
	var all []error
	for _, k := range keys {
		all = append(all, k.Err())
	}
	return errors.Join(all...)
}
