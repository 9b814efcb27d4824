// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package accesslog writes requests in the combined log format of Apache and nginx.
package accesslog

import (
	"strconv"

	"github.com/sluicegate/sluice/server/internal/front"
)

// Bounds of texts from clients, in bytes before escaping. Longer texts are cut and end in
// three dots.
const (
	mostMethod = 32
	mostTarget = 4096
	mostField  = 1024 // of Referer and User-Agent
)

// Append appends the line of a request, with its end:
//
//	ADDRESS - - [02/Jan/2006:15:04:05 +0000] "METHOD TARGET PROTOCOL" STATUS BYTES "REFERER" "USER-AGENT"
//
// Quotes, backslashes and all bytes that are not printable ASCII are escaped as \xHH, so that
// no client can write lines or fields. There is never a user.
func Append(b []byte, r *front.Record) []byte {
	if client := r.Request.Client(); client.IsValid() {
		b = client.AppendTo(b)
	} else {
		b = append(b, '-')
	}
	b = append(b, " - - ["...)
	b = r.At.UTC().AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	b = appendText(b, r.Method, mostMethod)
	b = append(b, ' ')
	b = appendText(b, r.Target, mostTarget)
	b = append(b, ' ')
	b = appendText(b, r.Proto, mostMethod)
	b = append(b, `" `...)
	if r.Status < 100 {
		b = append(b, "000"...)
	} else {
		b = strconv.AppendInt(b, int64(r.Status), 10)
	}
	b = strconv.AppendInt(append(b, ' '), r.Out, 10)
	b = appendField(b, r.Request.Header("Referer"))
	b = appendField(b, r.Request.Header("User-Agent"))
	return append(b, '\n')
}

// appendField appends the value of a header field, or a dash without one.
func appendField(b []byte, values []string) []byte {
	b = append(b, ` "`...)
	if len(values) == 0 || values[0] == "" {
		b = append(b, '-')
	} else {
		b = appendText(b, values[0], mostField)
	}
	return append(b, '"')
}

func appendText(b []byte, text string, most int) []byte {
	const digits = "0123456789ABCDEF"
	cut := len(text) > most
	if cut {
		text = text[:most]
	}
	from := 0
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b = append(b, text[from:i]...)
			b = append(b, '\\', 'x', digits[c>>4], digits[c&15])
			from = i + 1
		}
	}
	b = append(b, text[from:]...)
	if cut {
		b = append(b, "..."...)
	}
	return b
}
