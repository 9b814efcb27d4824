// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"strconv"
	"time"
)

const (
	ok        = "+OK\r\n"
	noElement = "*0\r\n"
)

func appendInt(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, ':'), n, 10), "\r\n"...)
}

func appendArray(b []byte, n int) []byte {
	return append(strconv.AppendInt(append(b, '*'), int64(n), 10), "\r\n"...)
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(strconv.AppendInt(append(b, '$'), int64(len(text)), 10), "\r\n"...)
	return append(append(b, text...), "\r\n"...)
}

// appendError appends an error, which begins with its code. It replaces line ends.
func appendError(b []byte, text string) []byte {
	from := len(b) + 1
	b = append(append(b, '-'), text...)
	for i := range b[from:] {
		if c := &b[from+i]; *c == '\r' || *c == '\n' {
			*c = ' '
		}
	}
	return append(b, "\r\n"...)
}

// appendMap appends the head of n pairs, which is that of an array in RESP2.
func (s *session) appendMap(n int) {
	if s.proto == 2 {
		s.out = appendArray(s.out, 2*n)
		return
	}
	s.out = append(strconv.AppendInt(append(s.out, '%'), int64(n), 10), "\r\n"...)
}

// roundUp returns d in a unit, rounded up: a client never comes too early.
func roundUp(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
