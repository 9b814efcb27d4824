// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"math"
	"strconv"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// standing is the state of a descriptor's limit.
type standing struct {
	after   int64 // hits in the window, with those of the request
	at      sluice.Instant
	taken   *sluice.Outcome // of a take, or of slots; nil: of a counter
	binding int             // the limit of the plan that binds
}

// standingOf returns the state behind a decision on a counter.
func standingOf(d *sluice.Decision) standing {
	return standing{after: sluice.MaxQuota - d.Remaining, at: d.At}
}

// over reports whether the limit denies the hits. Hits that are given back it never denies.
func (s *standing) over(k *descriptor) bool {
	if s.taken != nil {
		return !s.taken.Allowed && !k.negative
	}
	return s.after > int64(k.limit.PerUnit) && !k.negative
}

// remaining returns how many hits the limit has left.
func (s *standing) remaining(k *descriptor) int64 {
	if s.taken != nil {
		return s.taken.Remaining
	}
	return max(int64(k.limit.PerUnit)-s.after, 0)
}

// reset returns the time until the window ends, in whole seconds as the service counts. Of other
// limits it is the time until a denied request would pass, or else until all hits are left.
func (s *standing) reset(k *descriptor) time.Duration {
	if k.limit.Unit == ratelimit.Unknown {
		after := s.taken.ResetAfter
		if s.over(k) && !s.taken.TooLarge {
			after = s.taken.RetryAfter
		}
		return (after + time.Second - 1).Truncate(time.Second)
	}
	seconds, window := int64(s.at)/int64(time.Second/time.Microsecond), int64(k.limit.Window()/time.Second)
	return time.Duration(window-seconds%window) * time.Second
}

// decision returns the decision of the limit.
func (s *standing) decision(k *descriptor) sluice.Decision {
	d := sluice.Decision{Remaining: s.remaining(k), ResetAfter: s.reset(k), At: s.at, Due: s.at}
	switch {
	case s.taken != nil:
		d.Allowed, d.RetryAfter, d.TooLarge, d.Spent = !s.over(k), s.taken.RetryAfter, s.taken.TooLarge, s.taken.Spent
	case s.over(k):
		d.RetryAfter, d.TooLarge = d.ResetAfter, k.hits > int64(k.limit.PerUnit)
	case k.negative:
		d.Allowed, d.Spent = true, -k.hits
	default:
		d.Allowed, d.Spent = true, k.hits
	}
	return d
}

// denied reports whether the limits that have been decided deny the request.
func (d *decision) denied() bool {
	denied, quotas, quotasDenied := false, 0, 0
	for i := range d.descriptors {
		k := &d.descriptors[i]
		quota := d.limits.Quota || k.limit != nil && k.limit.Quota
		ruled := k.ruled != nil && k.ruled.over()
		denied = denied || ruled && !d.limits.Quota
		if k.ruled == nil && (k.unlimited || k.limit == nil && !quota) {
			continue
		}
		over := ruled || k.limit != nil && k.standing.over(k) && !k.limit.Shadow
		if !quota {
			denied = denied || over
		} else if quotas++; over {
			quotasDenied++
		}
	}
	return (denied || quotas > 0 && quotas == quotasDenied) && !d.limits.Shadow
}

// answer returns the answer to a decided request.
func (d *decision) answer() *pb.RateLimitResponse {
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(d.descriptors))
	r := &pb.RateLimitResponse{Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(d.descriptors))}
	var least *pb.RateLimitResponse_DescriptorStatus // the one that the header fields describe
	leastLeft := uint32(math.MaxUint32)
	for i := range d.descriptors {
		k, s := &d.descriptors[i], &statuses[i]
		r.Statuses[i], s.Code = s, pb.RateLimitResponse_OK
		if k.unlimited {
			s.LimitRemaining = math.MaxUint32
			continue
		}
		if k.limit == nil {
			continue
		}
		s.CurrentLimit, s.DurationUntilReset = k.limit.stated[k.standing.binding], durationpb.New(k.standing.reset(k))
		s.LimitRemaining = uint32(min(k.standing.remaining(k), math.MaxUint32))
		if s.LimitRemaining < leastLeft {
			least, leastLeft = s, s.LimitRemaining
		}
		if k.standing.over(k) && !k.limit.Shadow {
			if s.Code = pb.RateLimitResponse_OVER_LIMIT; !d.limits.Quota && !k.limit.Quota {
				least, leastLeft = s, 0
			}
		}
	}
	for _, k := range d.ruled {
		s := r.Statuses[k.at]
		switch changed := k.state(s); {
		case k.over() && !d.limits.Quota:
			least, leastLeft = s, 0
		case changed && (least == nil || s.LimitRemaining < leastLeft):
			least, leastLeft = s, s.LimitRemaining
		}
	}
	r.OverallCode = pb.RateLimitResponse_OK
	if d.denied() {
		r.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	if d.limits.Headers && least != nil {
		r.ResponseHeadersToAdd = d.headers(least)
	}
	if d.limits.Metadata {
		r.DynamicMetadata = d.metadata(r)
	}
	return r
}

// headers returns the header fields that describe a status.
func (d *decision) headers(s *pb.RateLimitResponse_DescriptorStatus) []*corepb.HeaderValue {
	field := func(name string, n int64) *corepb.HeaderValue {
		return &corepb.HeaderValue{Key: name, Value: strconv.FormatInt(n, 10)}
	}
	return []*corepb.HeaderValue{
		field(d.limits.LimitHeader, int64(s.CurrentLimit.GetRequestsPerUnit())),
		field(d.limits.RemainingHeader, int64(s.GetLimitRemaining())),
		field(d.limits.ResetHeader, s.GetDurationUntilReset().GetSeconds()),
	}
}
