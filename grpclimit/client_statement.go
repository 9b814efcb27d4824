// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/pacing"
)

// mostSilent is how long a call without any answer counts as in flight. By then the server has
// counted it, even if it answers hours later, so no unit is kept for it.
const mostSilent = time.Second

// call is a call that was sent.
type call struct {
	budget *pacing.Budget
	ticket uint64
	silent *time.Timer // ends its time in flight
}

func newCall(b *pacing.Budget, ticket uint64) call {
	return call{b, ticket, time.AfterFunc(mostSilent, b.Lost)}
}

// heard passes the statement of an answer to the budget, and returns it.
func (c *call) heard(err error, header, trailer metadata.MD) pacing.Statement {
	said, ok := statement(err, header, trailer)
	switch inFlight := c.silent.Stop(); {
	case inFlight && ok:
		c.budget.Answered(c.ticket, said)
	case inFlight:
		c.budget.Lost()
	case ok:
		c.budget.Heard(c.ticket, said)
	}
	return said
}

// statement returns the statement of an answer about limits. ok is false for a call that
// failed before an answer.
func statement(err error, header, trailer metadata.MD) (pacing.Statement, bool) {
	s := pacing.Statement{At: time.Now()}
	if err != nil {
		s.Wait, s.Denied = comeback(status.Convert(err), trailer)
	}
	either := func(key string) []string {
		if v := trailer[key]; len(v) > 0 {
			return v
		}
		return header[key]
	}
	s.Draft11(either("ratelimit-policy"), either("ratelimit"))
	s.Silent = len(s.Items) == 0 // a server may state limits on denials alone
	return s, err == nil || s.Denied || len(header)+len(trailer) > 0
}

// comeback returns the server's time until a retry, and whether it wants one. RetryInfo is the
// most exact, but a pushback can forbid the retry.
func comeback(st *status.Status, trailer metadata.MD) (time.Duration, bool) {
	if code := st.Code(); code != codes.ResourceExhausted && code != codes.Unavailable {
		return 0, false
	}
	pushback, pushed := trailer["grpc-retry-pushback-ms"], int64(0)
	if len(pushback) > 0 {
		n, err := strconv.ParseInt(pushback[0], 10, 64)
		if len(pushback) > 1 || err != nil || n < 0 {
			return 0, false // by gRFC A6
		}
		pushed = n
	}
	if d, ok := retryDelay(st); ok {
		return d, true
	}
	if len(pushback) > 0 {
		return time.Duration(min(pushed, sluice.MaxWindow.Milliseconds())) * time.Millisecond, true
	}
	var longest time.Duration
	asked := false
	for _, text := range trailer["retry-after"] {
		if d, ok := pacing.Seconds(text); ok {
			longest, asked = max(longest, d), true
		}
	}
	return longest, asked
}

// retryDelay returns the delay of RetryInfo; a negative one counts as missing.
func retryDelay(st *status.Status) (time.Duration, bool) {
	var info errdetails.RetryInfo
	for _, detail := range st.Proto().GetDetails() {
		if detail.MessageIs(&info) {
			err := detail.UnmarshalTo(&info)
			d := info.GetRetryDelay().AsDuration()
			return d, err == nil && info.GetRetryDelay() != nil && d >= 0
		}
	}
	return 0, false
}
