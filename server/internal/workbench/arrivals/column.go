// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// column is the part of a request that a column of a table, or a field of JSON, holds.
type column uint8

const (
	colOther column = iota
	colTime
	colClient
	colMethod
	colHost
	colTarget
	colRequest // the request line
	colStatus
	colRead
	colWritten
	colSeconds // the time that the request took
	colMillis
	colMicros
	colAgent
	colReferer
)

// names are the columns by the names that servers give them, in lower case.
var names = map[string]column{
	"client": colClient, "client_ip": colClient, "clientip": colClient, "remote_addr": colClient, "remote_ip": colClient,
	"ip": colClient, "src_ip": colClient, "source_ip": colClient, "address": colClient, "id.orig_h": colClient,
	"method": colMethod, "request_method": colMethod, "http_method": colMethod, "verb": colMethod,
	"host": colHost, "http_host": colHost, "server_name": colHost, "authority": colHost, "vhost": colHost,
	"path": colTarget, "uri": colTarget, "url": colTarget, "request_uri": colTarget, "target": colTarget,
	"request": colRequest, "request_line": colRequest,
	"status": colStatus, "status_code": colStatus, "response": colStatus, "code": colStatus,
	"request_bytes": colRead, "bytes_received": colRead, "request_length": colRead, "request_body_len": colRead,
	"bytes": colWritten, "bytes_sent": colWritten, "body_bytes_sent": colWritten, "size": colWritten, "response_body_len": colWritten,
	"request_time": colSeconds, "duration": colSeconds, "duration_ms": colMillis, "latency_ms": colMillis, "duration_us": colMicros,
	"user_agent": colAgent, "http_user_agent": colAgent, "useragent": colAgent, "agent": colAgent,
	"referer": colReferer, "http_referer": colReferer, "referrer": colReferer,
}

// times are the names of the column of the time, the likeliest first.
var times = []string{"ts", "time", "timestamp", "@timestamp", "time_iso8601", "time_local", "start_time", "datetime", "date", "date_time", "event_time", "created_at", "msec"}

// named returns the column of a name.
func named(name string) column { return names[strings.ToLower(name)] }

var (
	errKey  = errors.New("no value in the column that --key names")
	errCost = errors.New("no whole number in the column that --cost names")
)

// set sets the part of a request that a column holds. A dash means that there is none.
func (a *Arrival) set(c column, v string) error {
	if v == "" || v == "-" {
		return nil
	}
	switch c {
	case colClient:
		a.client(v)
	case colMethod:
		a.Method, a.Has = v, a.Has|Method
	case colHost:
		a.Host, a.Has = v, a.Has|Host
	case colTarget:
		a.Has |= Path | Query
		a.url(v)
	case colRequest:
		a.requestLine(v)
	case colStatus:
		return a.number(v, Status, func(n int64) { a.Status = int(n) })
	case colRead:
		return a.number(v, Read, func(n int64) { a.Read = n })
	case colWritten:
		return a.number(v, Written, func(n int64) { a.Written = n })
	case colSeconds:
		return a.took(v, time.Second)
	case colMillis:
		return a.took(v, time.Millisecond)
	case colMicros:
		return a.took(v, time.Microsecond)
	case colAgent:
		a.Agent, a.Has = v, a.Has|Agent
	case colReferer:
		a.Referer, a.Has = v, a.Has|Referer
	case colOther, colTime:
	}
	return nil
}

// text returns the part of a request that a column of that kind would hold.
func (a *Arrival) text(c column) string {
	switch c {
	case colClient:
		if a.Client.IsValid() {
			return a.Client.String()
		}
		return a.Name
	case colMethod:
		return a.Method
	case colHost:
		return a.Host
	case colTarget, colRequest:
		return a.Target
	case colStatus:
		return strconv.Itoa(a.Status)
	case colRead:
		return strconv.FormatInt(a.Read, 10)
	case colWritten:
		return strconv.FormatInt(a.Written, 10)
	case colAgent:
		return a.Agent
	case colReferer:
		return a.Referer
	default:
		return ""
	}
}

// chosen are the columns of Options.Key and Cost in a format that has no names for its
// columns. Nil chooses none.
type chosen struct{ key, cost column }

// choose returns the columns of a format that has some.
func choose(o Options, format string, has ...column) (*chosen, error) {
	if o.Key == "" && o.Cost == "" {
		return nil, nil //nolint:nilnil // none are chosen
	}
	c := &chosen{named(o.Key), named(o.Cost)}
	if strings.EqualFold(o.Key, "host") && !slices.Contains(has, colHost) {
		c.key = colClient // the host that asks, as these formats call it
	}
	for _, of := range []struct {
		flag, name string
		column     column
	}{{"key", o.Key, c.key}, {"cost", o.Cost, c.cost}} {
		if of.name != "" && !slices.Contains(has, of.column) {
			return nil, &columnError{fmt.Sprintf("--%s %s: the format %s has no such column; use one such as client, path or bytes", of.flag, of.name, format)}
		}
	}
	return c, nil
}

// fill sets Key and Cost.
func (c *chosen) fill(a *Arrival) error {
	if c == nil {
		return nil
	}
	if c.key != colOther {
		if a.Key = a.text(c.key); a.Key == "" {
			return errKey
		}
	}
	if c.cost == colOther {
		return nil
	}
	return a.setCost(a.text(c.cost))
}

// setCost reads a cost.
func (a *Arrival) setCost(s string) (err error) {
	if a.Cost, err = strconv.ParseInt(s, 10, 64); err != nil || a.Cost < 0 {
		return errCost
	}
	return nil
}
