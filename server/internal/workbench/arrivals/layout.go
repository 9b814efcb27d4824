// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the part of a request that a column holds.
type kind uint8

const (
	other kind = iota
	kindTime
	kindClient
	kindMethod
	kindHost
	kindTarget
	kindRequest // the request line
	kindStatus
	kindRead
	kindWritten
	kindSeconds // the time that the request took
	kindMillis
	kindMicros
	kindAgent
	kindReferer
	kindHeaders
)

// kinds has the names that servers give to columns, in lower case, the likeliest of each kind
// first.
var kinds = [...]string{
	kindTime:    "decided_us ts time timestamp @timestamp time_iso8601 time_local start_time datetime date date_time event_time created_at msec",
	kindClient:  "request.client_ip request.remote_ip client client_ip clientip remote_addr remote_ip ip src_ip source_ip address id.orig_h x_forwarded_for",
	kindMethod:  "request.method method request_method http_method verb",
	kindHost:    "request.host host http_host server_name authority vhost",
	kindTarget:  "request.uri path uri url request_uri target",
	kindRequest: "request request_line",
	kindStatus:  "status status_code response code",
	kindRead:    "request_bytes bytes_received bytes_read request_length request_body_len",
	kindWritten: "bytes bytes_sent body_bytes_sent size response_body_len",
	kindSeconds: "request_time duration target_processing_time",
	kindMillis:  "duration_ms latency_ms",
	kindMicros:  "duration_us",
	kindAgent:   "user_agent http_user_agent useragent agent",
	kindReferer: "referer http_referer referrer",
	kindHeaders: "request.headers headers",
}

var (
	errFields = errors.New("not as many fields as the format has")
	errKey    = errors.New("no value in the column that --key names")
	errCost   = errors.New("no whole number in the column that --cost names")
)

// layout says which columns hold what.
type layout struct {
	names           []string
	kinds           []kind
	time, key, cost int // indexes; -1: none
	clf             clf
}

// columnError is the error of a column that does not exist.
type columnError struct{ name, text string }

func (e *columnError) Error() string { return e.text }

// newLayout finds the columns by their names, which may be empty; a name may have several forms
// with bars between them. Of each kind the likeliest counts. The error is a *columnError.
func newLayout(names []string, o Options) (*layout, error) {
	l := &layout{names: names, kinds: make([]kind, len(names)), time: -1}
	for k, known := range kinds {
		for name := range strings.FieldsSeq(known) {
			if i := l.index(name); i >= 0 && l.kinds[i] == other {
				l.kinds[i] = kind(k)
				break
			}
		}
	}
	l.time = slices.Index(l.kinds, kindTime)
	for _, of := range []struct {
		flag, name string
		index      *int
	}{{"time", o.Time, &l.time}, {"key", o.Key, &l.key}, {"cost", o.Cost, &l.cost}} {
		if of.name == "" {
			if of.flag != "time" {
				*of.index = -1
			}
			continue
		}
		*of.index = l.index(of.name)
		if n, err := strconv.Atoi(of.name); *of.index < 0 && err == nil && n <= len(names) {
			*of.index = n - 1
		}
		if *of.index < 0 {
			have := strings.Trim(strings.Join(names, ", "), ", ")
			return nil, &columnError{of.name, fmt.Sprintf("--%s %s: there is no such column; there are %d: %s", of.flag, of.name, len(names), shorten(have))}
		}
	}
	if l.time < 0 {
		return nil, errors.New("no column has times; name one with --time")
	}
	return l, nil
}

// index returns the index of a column, -1 if there is none of that name.
func (l *layout) index(name string) int {
	return slices.IndexFunc(l.names, func(s string) bool {
		for form := range strings.SplitSeq(s, "|") {
			if form != "" && strings.EqualFold(strings.TrimSpace(form), name) {
				return true
			}
		}
		return false
	})
}

// fill sets the parts of a request by the cells of a line.
func (l *layout) fill(a *Arrival, cells []string) (err error) {
	if a.At, err = l.clf.parse(cells[l.time]); err != nil {
		return err
	}
	for i, k := range l.kinds {
		if k != other && i < len(cells) {
			a.set(k, cells[i])
		}
	}
	if l.key >= 0 {
		if l.key >= len(cells) || cells[l.key] == "" {
			return errKey
		}
		a.Key = cells[l.key]
	}
	if l.cost >= 0 {
		if l.cost >= len(cells) {
			return errCost
		}
		if a.Cost, err = strconv.ParseInt(cells[l.cost], 10, 64); err != nil || a.Cost < 0 {
			return errCost
		}
	}
	return nil
}

// set sets the part of a request that a column holds. An empty text, a dash and a number that
// cannot be read mean that the part is missing; the line is a request even so.
func (a *Arrival) set(k kind, v string) {
	if v == "" || v[0] == '-' {
		return
	}
	number := func(part Parts) int64 {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return -1
		}
		a.Has |= part
		return n
	}
	switch k {
	case kindClient:
		a.client(v)
	case kindMethod:
		a.Method, a.Has = v, a.Has|Method
	case kindHost:
		a.Host, a.Has = v, a.Has|Host
	case kindTarget:
		a.url(v)
	case kindRequest: // the request line of a client that does not speak HTTP has no method and no path
		a.Has |= Method | Path | Query
		if method, target, ok := strings.Cut(v, " "); ok {
			a.Method = method
			a.url(target[:cmpIndex(strings.LastIndex(target, " HTTP/"), len(target))])
		}
	case kindStatus:
		a.Status = int(max(number(Status), 0))
	case kindRead:
		a.Read = number(Read)
	case kindWritten:
		a.Written = max(number(Written), 0)
	case kindSeconds:
		a.took(v, time.Second)
	case kindMillis:
		a.took(v, time.Millisecond)
	case kindMicros:
		a.took(v, time.Microsecond)
	case kindAgent:
		a.Agent, a.Has = v, a.Has|Agent
	case kindReferer:
		a.Referer, a.Has = v, a.Has|Referer
	case kindHeaders:
		var fields map[string][]string
		if json.Unmarshal([]byte(v), &fields) == nil {
			a.Headers, a.Has = make(map[string][]string, len(fields)), a.Has|Headers
			for name, values := range fields {
				a.Headers[http.CanonicalHeaderKey(name)] = values
			}
		}
	case other, kindTime:
	}
}

// cmpIndex returns i if it is an index, or else without.
func cmpIndex(i, without int) int {
	if i < 0 {
		return without
	}
	return i
}

// client sets the client, and its name: a network address, which may have a port, or a name. Of
// several addresses, as of X-Forwarded-For, the last is that of the nearest client.
func (a *Arrival) client(s string) {
	if i := strings.LastIndexByte(s, ','); i >= 0 {
		s = strings.TrimSpace(s[i+1:])
	}
	a.Name, a.Has = s, a.Has|Client
	addr, err := netip.ParseAddr(a.Name)
	if err != nil {
		with, _ := netip.ParseAddrPort(a.Name) // else it is a name
		addr = with.Addr()
	}
	if a.Client = addr.Unmap().WithZone(""); a.Client.Is4() && (err != nil || addr.Is4In6()) {
		a.Name = a.Client.String()
	}
}

// url sets the target and, if it has one, the host.
func (a *Arrival) url(s string) {
	if a.Target, a.Has = s, a.Has|Path|Query; strings.HasPrefix(s, "/") {
		return
	}
	if i := strings.Index(s, "://"); i > 0 {
		host := s[i+3:]
		end := cmpIndex(strings.IndexAny(host, "/?"), len(host))
		a.Host, a.Target, a.Has = host[:end], "/"+strings.TrimPrefix(host[end:], "/"), a.Has|Host
	}
}

// took reads how long the request took, in units, with decimals.
func (a *Arrival) took(s string, unit time.Duration) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && v < 1e9 {
		a.Took, a.Has = time.Duration(v*float64(unit)), a.Has|Took
	}
}
