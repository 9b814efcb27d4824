// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// parser reads the lines of one file. ok is false for lines that are not requests, such as
// comments.
type parser interface {
	parse(line string, a *Arrival) (ok bool, err error)
}

var (
	errFields  = errors.New("not as many fields as the format has")
	errQuote   = errors.New("a quotation mark is missing")
	errNumber  = errors.New("not a whole number where one is expected")
	errRequest = errors.New("no request line in quotation marks")
)

// commonLog reads the common log format and, with referer and agent, the combined one. What is
// cut of these, and more fields behind them, is ignored.
type commonLog struct {
	combined bool
	columns  *chosen // of Options.Key and Cost
	clf      clf
}

func (p *commonLog) parse(line string, a *Arrival) (bool, error) {
	i := strings.IndexByte(line, ' ')
	open := strings.Index(line, " [")
	if i < 0 || open < 0 {
		return false, errFields
	}
	from, rest := line[:i], line[open+2:]
	end := strings.IndexByte(rest, ']')
	if end < 0 || end+3 > len(rest) || rest[end+2] != '"' {
		return false, errRequest
	}
	at, ok := p.clf.parse(rest[:end])
	if !ok || at < 0 || at > latest {
		return false, errTime
	}
	a.At = at
	a.client(from)
	request, rest, err := quoted(rest[end+2:])
	if err != nil {
		return false, err
	}
	a.requestLine(request)
	status, rest := word(rest)
	written, rest := word(rest)
	if err := a.number(status, Status, func(n int64) { a.Status = int(n) }); err != nil {
		return false, err
	}
	if err := a.number(written, Written, func(n int64) { a.Written = n }); err != nil {
		return false, err
	}
	if referer, rest, ok := strings.Cut(strings.TrimPrefix(rest, ` "`), `" "`); p.combined && ok {
		a.Referer, a.Has = referer, a.Has|Referer|Agent
		if a.Agent = rest; mark(rest) >= 0 {
			a.Agent = rest[:mark(rest)]
		}
	}
	return true, p.columns.fill(a)
}

// word returns the next text between blanks, and what is behind it.
func word(s string) (first, rest string) {
	s = strings.TrimPrefix(s, " ")
	if i := strings.IndexByte(s, ' '); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// quoted returns the text between quotation marks at the start of s, as it is written, and
// what is behind it.
func quoted(s string) (text, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", errQuote
	}
	i := mark(s[1:])
	if i < 0 {
		return "", "", errQuote
	}
	return s[1 : i+1], s[i+2:], nil
}

// mark returns the index of the first quotation mark that no backslash escapes, -1 if there is
// none.
func mark(s string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for escapes < i && s[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// client sets the client to an address, which may have a port, or to a name.
func (a *Arrival) client(s string) {
	a.Has |= Client
	if addr, err := netip.ParseAddr(s); err == nil {
		a.Client = addr.Unmap().WithZone("")
		return
	}
	if with, err := netip.ParseAddrPort(s); err == nil {
		a.Client = with.Addr().Unmap().WithZone("")
		return
	}
	if s != "-" {
		a.Name = s
	}
}

// requestLine sets what "GET /path HTTP/1.1" has; the last part may be missing. A request that
// was no HTTP has no method and no path.
func (a *Arrival) requestLine(s string) {
	a.Has |= Method | Path | Query
	method, target, ok := strings.Cut(s, " ")
	if !ok {
		return
	}
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	a.Method = method
	a.url(target)
}

// url sets the target and, if it has one, the host.
func (a *Arrival) url(s string) {
	a.Target = s
	scheme := strings.Index(s, "://")
	if scheme < 0 || s[0] == '/' {
		return
	}
	host := s[scheme+3:]
	a.Target = "/"
	if i := strings.IndexAny(host, "/?"); i >= 0 {
		host, a.Target = host[:i], host[i:]
	}
	a.Host, a.Has = host, a.Has|Host
}

// number reads a whole number that is not negative; "-" and nothing mean that there is none.
func (a *Arrival) number(s string, part Parts, set func(int64)) error {
	if s == "-" || s == "" {
		return nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return errNumber
	}
	a.Has |= part
	set(n)
	return nil
}

// took reads a duration as a number of units, with decimals.
func (a *Arrival) took(s string, unit time.Duration) error {
	if s == "-" || s == "" {
		return nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 0 || v > 1e9 {
		return errNumber
	}
	a.Took, a.Has = time.Duration(v*float64(unit)), a.Has|Took
	return nil
}
