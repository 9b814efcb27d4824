// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"net/http"
	"time"
)

const (
	us     = time.Microsecond
	ms     = time.Millisecond
	sec    = time.Second
	minute = time.Minute
	hour   = time.Hour
)

// proxies are what limits in front of a service.
func proxies() []Profile {
	return []Profile{
		{
			Name: "nginx", Title: "NGINX, limit_req with rate=10r/s burst=5",
			Source: "https://nginx.org/en/docs/http/ngx_http_limit_req_module.html",
			Limits: limits("10/s burst 6 leaky-bucket"),
			Status: http.StatusServiceUnavailable,
			Differs: []string{
				"instants are whole milliseconds in nginx",
				"a zone that is full forgets its oldest keys, those that are denied too",
			},
			Vectors: []Vector{
				{Name: "nginx rate=10r/s burst=5", Steps: []Step{
					pass(0, 1, 5).reset(100 * ms),
					pass(0, 1, 4).held(100 * ms).reset(200 * ms),
					pass(0, 1, 3).held(200 * ms).reset(300 * ms),
					pass(0, 1, 2).held(300 * ms).reset(400 * ms),
					pass(0, 1, 1).held(400 * ms).reset(500 * ms),
					pass(0, 1, 0).held(500 * ms).reset(600 * ms),
					deny(0, 1, 0, 100*ms).reset(600 * ms),
					deny(0, 1, 0, 100*ms).reset(600 * ms),
					pass(100*ms, 1, 0).held(500 * ms).reset(600 * ms),
				}},
				{
					Name: "nginx with two zones: nothing is booked on denial, the longest delay wins", Limits: limits("server: 10/s burst 6 leaky-bucket", "client: 1/s burst 2 leaky-bucket"),
					Steps: []Step{
						pass(0, 1, 1).reset(sec),
						pass(0, 1, 0).held(sec).reset(2 * sec),
						deny(0, 1, 0, sec).reset(2 * sec),
						pass(sec, 1, 0).held(sec).reset(2 * sec),
					},
				},
			},
		},
		{
			Name: "nginx-nodelay", Title: "NGINX, limit_req with rate=10r/s burst=5 nodelay",
			Source:  "https://nginx.org/en/docs/http/ngx_http_limit_req_module.html",
			Limits:  limits("10/s burst 6 leaky-bucket nodelay"),
			Status:  http.StatusServiceUnavailable,
			Differs: []string{"instants are whole milliseconds in nginx"},
			Vectors: []Vector{
				{Name: "nginx rate=10r/s burst=5 nodelay", Steps: []Step{
					pass(0, 1, 5).reset(100 * ms),
					all(0, 5, 0).reset(600 * ms),
					deny(0, 1, 0, 100*ms).reset(600 * ms),
				}},
			},
		},
		{
			Name: "nginx-delay", Title: "NGINX, limit_req with rate=5r/s burst=12 delay=8",
			Source:  "https://nginx.org/en/docs/http/ngx_http_limit_req_module.html",
			Limits:  limits("5/s burst 13 leaky-bucket delay-after 9"),
			Status:  http.StatusServiceUnavailable,
			Differs: []string{"instants are whole milliseconds in nginx"},
			Vectors: []Vector{
				{Name: "nginx rate=5r/s burst=12 delay=8", Steps: []Step{
					all(0, 9, 4).reset(1800 * ms),
					pass(0, 1, 3).held(200 * ms).reset(2000 * ms),
					pass(0, 1, 2).held(400 * ms).reset(2200 * ms),
					pass(0, 1, 1).held(600 * ms).reset(2400 * ms),
					pass(0, 1, 0).held(800 * ms).reset(2600 * ms),
					deny(0, 1, 0, 200*ms).reset(2600 * ms),
				}},
			},
		},
		{
			Name: "nginx-minute", Title: "NGINX, limit_req with rate=1r/m, which it keeps as 16 in 1000 s: one in 62.5 s",
			Source:  "https://github.com/nginx/nginx/blob/master/src/http/modules/ngx_http_limit_req_module.c",
			Limits:  limits("2/125s leaky-bucket"),
			Status:  http.StatusServiceUnavailable,
			Differs: []string{"instants are whole milliseconds in nginx"},
			Vectors: []Vector{
				{Name: "nginx rate=1r/m: one in 62.5 s", Steps: []Step{
					pass(0, 1, 0).reset(62500 * ms),
					deny(minute, 1, 0, 2500*ms).reset(2500 * ms),
					pass(62500*ms, 1, 0).reset(62500 * ms),
				}},
				{Name: "rate=1r/m as it is written", Limits: limits("1/min leaky-bucket"), Steps: []Step{
					pass(0, 1, 0).reset(minute),
					deny(minute-time.Microsecond, 1, 0, time.Microsecond).reset(time.Microsecond),
					pass(minute, 1, 0).reset(minute),
				}},
			},
		},
		{
			Name: "zuul", Title: "Spring Cloud Zuul RateLimit, limit 10 with refresh-interval 60",
			Source: "https://github.com/marcosbarbero/spring-cloud-zuul-ratelimit",
			Limits: limits("10/min fixed-window anchor first"),
			Status: http.StatusTooManyRequests,
			Answer: `fields: {X-RateLimit-Limit: "{limit}", X-RateLimit-Remaining: "{remaining}", X-RateLimit-Reset: "{reset}000"}
`,
			Differs: []string{
				"X-RateLimit-Reset is of whole seconds here (60000), and X-RateLimit-Quota and -Remaining-Quota are not sent; the names are those of Zuul's response-headers: STANDARD",
				"quota, the request time of an interval, is a rule of its own: zuul-quota",
				"a denied request counts there, which changes nothing before the interval ends",
			},
			Vectors: []Vector{
				{Name: "zuul limit 10", Steps: []Step{
					all(17*sec, 10, 0).reset(minute),
					deny(18*sec, 1, 0, 59*sec),
					pass(77*sec, 1, 9).reset(minute),
				}},
			},
		},
		{
			Name: "zuul-quota", Title: "Spring Cloud Zuul RateLimit, quota 1 with refresh-interval 60, in milliseconds of request time",
			Source: "https://github.com/marcosbarbero/spring-cloud-zuul-ratelimit",
			Limits: limits("1000/min fixed-window anchor first debt 60000"),
			Status: http.StatusTooManyRequests,
			Differs: []string{
				"a request costs the milliseconds that it takes: write cost: milliseconds into the rule, or in Go settle a Take of 0",
				"a single request that takes longer than 61 s counts as 61 s",
			},
			Vectors: []Vector{
				{Name: "zuul quota 1: of requests of 300 ms 4 pass", Steps: []Step{
					{Times: 3, Every: sec, Actual: 300, Allowed: 3, Remaining: 100},
					{At: 3 * sec, Actual: 300, Allowed: 1},
					{At: 4 * sec, RetryAfter: 56 * sec},
				}},
			},
		},
		{
			Name: "cloudflare", Title: "Cloudflare rate limiting, 50 requests a minute",
			Source: "https://blog.cloudflare.com/counting-things-a-lot-of-different-things/",
			Limits: limits("50/min sliding-counter count-denied"),
			Status: http.StatusTooManyRequests,
			Differs: []string{
				"a mitigation time, during which all is denied, is a block of the rule: 10min after 1 denial/min",
				"Cloudflare counts with a delay and for each data centre alone; this counts at once and, in a shared store, everywhere",
			},
			Vectors: []Vector{
				{Name: "Cloudflare's 42×0.75+18 = 49.5 of 50 passes", Steps: []Step{
					pass(30*sec, 42, 8).reset(90 * sec),
					pass(75*sec, 18, 1).reset(105 * sec),
					pass(75*sec, 1, 0).reset(105 * sec),
					deny(75*sec, 1, 0, 2142858*time.Microsecond).reset(105 * sec), // which counts
				}},
			},
		},
	}
}
