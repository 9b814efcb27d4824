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
)

// standing is the state of a descriptor's counter.
type standing struct {
	after int64 // hits in the window, with those of the request
	at    sluice.Instant
}

// standingOf returns the state behind a decision on a counter.
func standingOf(d *sluice.Decision) standing {
	return standing{after: sluice.MaxQuota - d.Remaining, at: d.At}
}

// over reports whether the limit denies the hits. Hits that are given back it never denies.
func (s standing) over(k *descriptor) bool {
	return s.after > int64(k.limit.PerUnit) && !k.negative
}

// remaining returns how many hits the limit has left.
func (s standing) remaining(k *descriptor) int64 { return max(int64(k.limit.PerUnit)-s.after, 0) }

// reset returns the time until the window ends, in whole seconds as the service counts.
func (s standing) reset(k *descriptor) time.Duration {
	seconds, window := int64(s.at)/int64(time.Second/time.Microsecond), int64(k.limit.Unit.Window()/time.Second)
	return time.Duration(window-seconds%window) * time.Second
}

// decision returns the decision of the limit.
func (s standing) decision(k *descriptor) sluice.Decision {
	d := sluice.Decision{Remaining: s.remaining(k), ResetAfter: s.reset(k), At: s.at, Due: s.at}
	switch {
	case s.over(k):
		d.RetryAfter, d.TooLarge = d.ResetAfter, k.hits > int64(k.limit.PerUnit)
	case k.negative:
		d.Allowed, d.Spent = true, -k.hits
	default:
		d.Allowed, d.Spent = true, k.hits
	}
	return d
}

// answer returns the answer to a decided request.
func (d *decision) answer() *pb.RateLimitResponse {
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(d.descriptors))
	r := &pb.RateLimitResponse{Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(d.descriptors))}
	var least *pb.RateLimitResponse_DescriptorStatus // the one that the header fields describe
	leastLeft := uint32(math.MaxUint32)
	denied, quotas, quotasDenied := false, 0, 0
	for i := range d.descriptors {
		k, s := &d.descriptors[i], &statuses[i]
		r.Statuses[i], s.Code = s, pb.RateLimitResponse_OK
		if k.unlimited {
			s.LimitRemaining = math.MaxUint32
			continue
		}
		quota := d.limits.Quota || k.limit != nil && k.limit.Quota
		if quota {
			quotas++
		}
		if k.limit == nil {
			continue
		}
		s.CurrentLimit, s.DurationUntilReset = k.limit.stated, durationpb.New(k.standing.reset(k))
		s.LimitRemaining = uint32(k.standing.remaining(k))
		if s.LimitRemaining < leastLeft {
			least, leastLeft = s, s.LimitRemaining
		}
		switch over := k.standing.over(k) && !k.limit.Shadow; {
		case over && quota:
			quotasDenied++
			s.Code = pb.RateLimitResponse_OVER_LIMIT
		case over:
			denied, least, leastLeft = true, s, 0
			s.Code = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	for _, k := range d.ruled {
		s := r.Statuses[k.at]
		before := s.Code
		if d.limits.Quota && k.of.unlimited {
			quotas++
		}
		if changed := k.state(s); changed && (s.LimitRemaining < leastLeft || least == nil) {
			least, leastLeft = s, s.LimitRemaining
		}
		switch over := k.over(); {
		case over && d.limits.Quota:
			if before == pb.RateLimitResponse_OK {
				quotasDenied++
			}
		case over:
			denied, least, leastLeft = true, s, 0
		}
	}
	r.OverallCode = pb.RateLimitResponse_OK
	if (denied || quotas > 0 && quotas == quotasDenied) && !d.limits.Shadow {
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
