// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Bounds of texts from clients, in bytes before escaping. Longer texts are cut and end in an
// ellipsis.
const (
	mostMethod = 32
	mostHost   = 256
	mostPath   = 1024
	mostKey    = 256
	mostText   = 256 // of an error or a URL
	mostName   = 256 // of a node, a rule or a limit
)

// mostRules is the most entries of limits in a line, and mostLine the length in bytes after
// which no entry begins.
const (
	mostRules = 32
	mostLine  = 16 << 10
)

// appendField appends a name with its punctuation, and a text.
func appendField(b []byte, name, text string, most int) []byte {
	return appendText(append(b, name...), text, most)
}

// appendOptional is appendField without an empty text.
func appendOptional(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendField(b, name, text, mostText)
}

// appendText appends a text in JSON, cut to most bytes. Control characters, C1 included, are
// escaped, and invalid UTF-8 is replaced: a text must not mislead a terminal or a reader of
// lines.
func appendText(b []byte, text string, most int) []byte {
	cut := len(text) > most
	if cut {
		text = text[:most]
		for n := 0; n < utf8.UTFMax-1 && len(text) > 0 && !utf8.RuneStart(text[len(text)-1]); n++ {
			text = text[:len(text)-1]
		}
		if r, size := utf8.DecodeLastRuneInString(text); r == utf8.RuneError && size == 1 {
			text = text[:len(text)-1] // the first bytes of a character that was cut
		}
	}
	b = append(b, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, size = utf8.DecodeRuneInString(text[i:]); r > 0x9f && r != utf8.RuneError || r == utf8.RuneError && size > 1 {
				i += size
				continue
			}
		}
		b = append(b, text[from:i]...)
		b = appendEscaped(b, r)
		i += size
		from = i
	}
	b = append(b, text[from:]...)
	if cut {
		b = append(b, "…"...)
	}
	return append(b, '"')
}

func appendEscaped(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case utf8.RuneError:
		return append(b, "\ufffd"...)
	}
	return append(b, '\\', 'u', '0', '0', digits[r>>4&15], digits[r&15])
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendRetry appends the time until a denied cost fits, in µs; -1 means never.
func appendRetry(b []byte, after time.Duration, tooLarge bool) []byte {
	if tooLarge {
		after = -time.Microsecond
	}
	return appendMicros(b, `,"retry_after_us":`, after)
}

// appendMicros appends a time in µs.
func appendMicros(b []byte, name string, d time.Duration) []byte {
	return appendNumber(b, name, d.Microseconds())
}

// traceID returns the trace id in a traceparent field of W3C Trace Context, or "" if that is
// not valid.
func traceID(fields []string) string {
	if len(fields) != 1 {
		return ""
	}
	const length = len("00-00000000000000000000000000000000-0000000000000000-00")
	f := fields[0]
	if len(f) < length || f[2] != '-' || f[35] != '-' || f[52] != '-' || f[:2] == "ff" ||
		len(f) > length && (f[:2] == "00" || f[length] != '-') {
		return ""
	}
	if !isHex(f[:2]) || !isID(f[3:35]) || !isID(f[36:52]) || !isHex(f[53:length]) {
		return ""
	}
	return f[3:35]
}

// isID reports whether a text consists of hexadecimal digits that are not all 0.
func isID(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return isHex(s)
		}
	}
	return false
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
