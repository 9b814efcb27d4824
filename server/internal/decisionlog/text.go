// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"strconv"
	"time"
	"unicode/utf8"
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
