// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Statuses returns the HTTP statuses of codes, for a rule's When; some codes share one: see
// [evaluate.RPCStatus].
func Statuses(of ...codes.Code) []policy.Status {
	all := make([]policy.Status, len(of))
	for i, code := range of {
		all[i] = policy.Code(evaluate.RPCStatus(uint32(code)))
	}
	return all
}

// refuse returns the trailer and the error of a call or message that does not pass.
func refuse(c *evaluate.Call) (metadata.MD, error) {
	var details []protoadapt.MessageV1
	trailer := metadata.MD{}
	if c.Limit != nil {
		trailer = fields(c)
	}
	code, pushback := c.RPC()
	if pushback != "" {
		trailer.Set("grpc-retry-pushback-ms", pushback)
	}
	if wait, ok := c.Retry(); ok {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if c.Verdict == evaluate.Denied {
		details = append(details, quotaFailure(c))
	}
	st := status.New(codes.Code(code), string(c.AppendDetail(nil)))
	if full, err := st.WithDetails(details...); err == nil { // otherwise without details
		st = full
	}
	return trailer, st.Err()
}

// quotaFailure names the limits that denied. It holds nothing of the key.
func quotaFailure(c *evaluate.Call) *errdetails.QuotaFailure {
	f := &errdetails.QuotaFailure{}
	for _, name := range c.Violated {
		f.Violations = append(f.Violations, &errdetails.QuotaFailure_Violation{Subject: name, QuotaId: name, Description: string(c.AppendDetail(nil))})
	}
	if c.Limit != nil { // the one that binds comes first
		f.Violations[0].QuotaMetric, f.Violations[0].QuotaValue = c.Limit.Unit.String(), c.Limit.Quota
	}
	return f
}

// fields returns the rate limit fields of HTTP as metadata.
func fields(c *evaluate.Call) metadata.MD {
	h := http.Header{}
	httplimit.Draft11.Set(h, c.Limits(), c.Limit, c.Decision)
	md := metadata.MD{"ratelimit": h["RateLimit"], "ratelimit-policy": h["RateLimit-Policy"]}
	if wait := h["Retry-After"]; wait != nil {
		md["retry-after"] = wait
	}
	return md
}
