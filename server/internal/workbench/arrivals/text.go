// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// split appends the fields of a line that are separated by blanks. A field may be in quotation
// marks.
func split(fields []string, line string) ([]string, error) {
	for rest := line; rest != ""; {
		if rest[0] == ' ' {
			rest = rest[1:]
			continue
		}
		var field string
		var err error
		if rest[0] == '"' {
			field, rest, err = quoted(rest)
		} else {
			field, rest = word(rest)
		}
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// envoyLog reads the default format of Envoy's access log.
type envoyLog struct {
	fields  []string
	columns *chosen
}

func (p *envoyLog) parse(line string, a *Arrival) (bool, error) {
	stamp, rest, ok := strings.Cut(line, "] ")
	if !ok || stamp == "" || stamp[0] != '[' {
		return false, errFields
	}
	var err error
	if a.At, err = ParseTime(stamp[1:]); err != nil {
		return false, err
	}
	if p.fields, err = split(p.fields[:0], rest); err != nil {
		return false, err
	}
	// Newer versions and Istio have more fields before the last five, and between the flags
	// and the bytes.
	f := p.fields
	n := len(f)
	if n < 12 {
		return false, errFields
	}
	numbers := 3
	for numbers < n-7 && !(number(f[numbers]) && number(f[numbers+1])) {
		numbers++
	}
	a.requestLine(f[0])
	a.Has |= Agent | Host | Client
	forwarded := f[n-5]
	if i := strings.LastIndexByte(forwarded, ','); i >= 0 {
		forwarded = strings.TrimSpace(forwarded[i+1:])
	}
	a.client(forwarded)
	a.Agent, a.Host = f[n-4], f[n-2]
	for _, err := range []error{
		a.number(f[1], Status, func(n int64) { a.Status = int(n) }),
		a.number(f[numbers], Read, func(n int64) { a.Read = n }),
		a.number(f[numbers+1], Written, func(n int64) { a.Written = n }),
		a.took(f[numbers+2], time.Millisecond),
	} {
		if err != nil {
			return false, err
		}
	}
	return true, p.columns.fill(a)
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

// albLog reads the access log of an AWS Application Load Balancer.
type albLog struct {
	fields  []string
	columns *chosen
}

// albTypes are the values of an ALB log's first field.
var albTypes = []string{"http", "https", "h2", "grpcs", "ws", "wss"}

func (p *albLog) parse(line string, a *Arrival) (bool, error) {
	var err error
	if p.fields, err = split(p.fields[:0], line); err != nil {
		return false, err
	}
	f := p.fields
	if len(f) < 14 || !slices.Contains(albTypes, f[0]) {
		return false, errFields
	}
	if a.At, err = ParseTime(f[1]); err != nil {
		return false, err
	}
	var took time.Duration
	for _, s := range f[5:8] {
		if err := a.took(strings.TrimPrefix(s, "-"), time.Second); err != nil {
			return false, err
		}
		if !strings.HasPrefix(s, "-") { // -1: not known
			took += a.Took
		}
	}
	a.Took, a.Has = took, a.Has|Took
	if a.At = max(a.At-took.Microseconds(), 0); len(f) > 21 {
		if at, err := ParseTime(f[21]); err == nil { // when the request came
			a.At = at
		}
	}
	a.client(f[3])
	a.requestLine(f[12])
	a.Agent, a.Has = f[13], a.Has|Agent
	for _, err := range []error{
		a.number(f[8], Status, func(n int64) { a.Status = int(n) }),
		a.number(f[10], Read, func(n int64) { a.Read = n }),
		a.number(f[11], Written, func(n int64) { a.Written = n }),
	} {
		if err != nil {
			return false, err
		}
	}
	return true, p.columns.fill(a)
}
