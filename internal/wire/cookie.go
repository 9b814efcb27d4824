// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// Cookies returns the values of all cookies with a name, as read by applications that unescape
// cookies: values that others distinguish become equal and share a budget.
//
// It returns none, and a problem, if servers read one of the cookies in different ways, so
// that an application may see another cookie or value. The problem never holds a value that
// the client sent.
func Cookies(r *http.Request, name string) (values []string, problem string) {
	for _, line := range r.Header["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			part = textproto.TrimString(part)
			key, value, _ := strings.Cut(part, "=")
			if textproto.TrimString(key) != name {
				if hides(part, len(key), name) {
					return nil, "is sent under a name that some servers read as another; send it once, as RFC 6265 has it"
				}
				continue
			}
			plain, ok := cookieValue(value)
			if !ok {
				return nil, "has a blank, a comma or bytes that no cookie may have; send it as RFC 6265 has it"
			}
			values = append(values, plain)
		}
	}
	return values, ""
}

// cookieValue returns a cookie's value without surrounding blanks, quotes and escapes. ok is
// false if RFC 6265 does not allow the value: some servers end a value at a blank or a comma,
// drop a value with other bytes, or have escapes of their own within quotes.
func cookieValue(text string) (value string, ok bool) {
	text = textproto.TrimString(text)
	if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' {
		text = text[1 : n-1]
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '"' || c == ',' || c == '\\' {
			return "", false
		}
	}
	value = PlainCookie(text)
	// Some frameworks read j: followed by a JSON text as that text.
	if json, found := strings.CutPrefix(value, "j:"); found && strings.HasPrefix(strings.TrimLeft(json, " \t\r\n"), `"`) {
		return "", false
	}
	return value, true
}

// hides reports whether some server finds a cookie of that name in a part of a Cookie field
// whose own name, of own bytes, is spelled otherwise: some servers also end a cookie at a
// blank or a comma.
func hides(part string, own int, name string) bool {
	if own == len(part) {
		return false // no value
	}
	if alike(part[:own], name) {
		return true
	}
	part = strings.TrimRight(part, "=") // no value follows
	if own > 0 && strings.IndexByte(part[min(own+1, len(part)):], '=') < 0 && strings.IndexFunc(part[:own], ends) < 0 {
		return false // true of most parts
	}
	// Check every word up to its equals sign; some servers skip the words before it. The sign
	// may also begin the next word.
	before := "" // the last word, if it has no sign
	for word := range strings.FieldsFuncSeq(part, ends) {
		if before != "" && word[0] == '=' {
			if alike(before, name) {
				return true
			}
			before = "" // this word is its value
			continue
		}
		spelled, _, sign := strings.Cut(strings.TrimLeft(word, "="), "=")
		switch {
		case !sign:
			before = spelled
		case alike(spelled, name):
			return true
		default:
			before = ""
		}
	}
	return false
}

// alike reports whether some server confuses one cookie's name with another: some servers drop
// blanks around or within a name, unescape it, ignore its case, or replace characters that PHP
// does not allow in a variable's name by an underscore.
func alike(spelled, name string) bool {
	if len(spelled) < len(name) {
		return false
	}
	if strings.IndexFunc(spelled, unusual) < 0 {
		return folds(spelled, name)
	}
	spelled, _, _ = strings.Cut(Unescape(spelled), "\x00") // some servers end a name there
	spelled = strings.TrimFunc(spelled, invisible)
	return folds(spelled, name) || folds(strings.Map(visible, spelled), name)
}

func folds(spelled, name string) bool {
	if len(spelled) != len(name) {
		return false
	}
	for i := range len(name) {
		s, n := spelled[i], name[i]
		if lower(s) != lower(n) && (n != '_' || strings.IndexByte(" .[", s) < 0) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// invisible reports whether c is a blank of ASCII or Unicode, in any bytes, or another
// character that no cookie's name has.
func invisible(c rune) bool { return c <= ' ' || c > '~' }

// unusual reports whether a name with c may be read in another way.
func unusual(c rune) bool { return invisible(c) || c == '%' || c == '+' }

// ends reports whether c ends a cookie for some servers.
func ends(c rune) bool { return invisible(c) || c == ',' }

func visible(c rune) rune {
	if invisible(c) {
		return -1
	}
	return c
}

// PlainCookie returns a cookie's value in the form in which values are compared: unescaped, and
// with blanks for pluses. Some servers read a plus as a blank and some as a plus, so a plus,
// its escape and the escape of a blank may be one session.
func PlainCookie(value string) string {
	return strings.ReplaceAll(Unescape(value), "+", " ")
}

// Unescape returns the text of a form's value: %41 becomes A and a plus a space. Invalid
// escapes stay.
func Unescape(value string) string {
	if !strings.ContainsAny(value, "%+") {
		return value
	}
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(value):
			if n, err := strconv.ParseUint(value[i+1:i+3], 16, 8); err == nil {
				c = byte(n)
				i += 2
			}
		}
		b = append(b, c)
	}
	return string(b)
}
