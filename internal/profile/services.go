// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile

import "net/http"

// services are public APIs that limit their callers.
func services() []Profile {
	return []Profile{
		{
			Name: "shopify-rest", Title: "Shopify REST Admin API: 40, of which 2 a second leak",
			Source: "https://shopify.dev/docs/api/admin-rest/usage/rate-limits",
			Limits: limits("2/s burst 40 leaky-bucket nodelay"),
			Status: http.StatusTooManyRequests,
			Answer: `content_type: application/json
body: '{"errors":"Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service."}'
fields: {X-Shopify-Shop-Api-Call-Limit: "{used}/{limit}"}
denied: {Retry-After: "{retry_after}.0"}
`,
			Differs: []string{
				"Retry-After is of whole seconds here (1.0)",
				"other plans have 4, 20 or 40 a second",
			},
			Vectors: []Vector{
				{Name: "Shopify REST: 40 at once, the 41st waits 500 ms", Steps: []Step{
					all(0, 32, 8).reset(16 * sec),
					all(0, 8, 0).reset(20 * sec),
					deny(0, 1, 0, 500*ms).reset(20 * sec),
					all(2*sec, 4, 0).reset(20 * sec),
				}},
			},
		},
		{
			Name: "shopify-graphql", Title: "Shopify GraphQL Admin API: 1000 points, 50 a second",
			Source: "https://shopify.dev/docs/api/usage/limits",
			Limits: limits("50/s burst 1000"),
			Status: http.StatusTooManyRequests,
			Answer: `content_type: application/json
body: '{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"actualQueryCost":null,"throttleStatus":{"maximumAvailable":{limit},"currentlyAvailable":{remaining},"restoreRate":{quota}}}}}'
`,
			Differs: []string{
				"Shopify answers a denial by status 200; here it is 429, unless the rule has an answer of its own with status: 200",
				"a request costs its points: write a cost into the rule, such as {response_header: X-Cost, most: 1000, estimate: 500}",
				"extensions.cost has no requestedQueryCost, and is in denials only",
				"other plans have 100, 200 or 1000 a second",
			},
			Vectors: []Vector{
				{Name: "Shopify GraphQL: 500 asked for, 100 used", Steps: []Step{
					{Cost: 500, Actual: 100, Allowed: 1, Remaining: 900},
					deny(0, 1000, 900, 2*sec),
					pass(2*sec, 1000, 0),
				}},
			},
		},
		{
			Name: "github", Title: "GitHub REST API without a login: 60 an hour",
			Source: "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
			Limits: limits("60/h fixed-window anchor first"),
			Status: http.StatusForbidden, InFlight: 100, Answer: githubAnswer,
			Differs: githubDiffers(),
			Vectors: []Vector{
				{Name: "GitHub: 60 in the hour that the first request begins", Steps: []Step{
					all(17*minute, 60, 0).reset(hour),
					deny(76*minute, 1, 0, minute).reset(minute),
					pass(77*minute, 1, 59).reset(hour),
				}},
				{Name: "GitHub: of 2 requests in flight, as of its 100", InFlight: 2, Steps: twoInFlight()},
			},
		},
		{
			Name: "github-user", Title: "GitHub REST API with a login: 5000 an hour",
			Source: "https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api",
			Limits: limits("5000/h fixed-window anchor first"),
			Status: http.StatusForbidden, InFlight: 100, Answer: githubAnswer,
			Differs: githubDiffers(),
			Vectors: []Vector{
				{Name: "GitHub: 5000 in the hour that the first request begins", Steps: []Step{
					all(0, 5000, 0).reset(hour),
					deny(59*minute, 1, 0, minute).reset(minute),
				}},
			},
		},
		{
			Name: "stripe", Title: "Stripe API in live mode: 100 reads a second",
			Source: "https://docs.stripe.com/rate-limits",
			Limits: limits("100/s"),
			Status: http.StatusTooManyRequests, InFlight: 100,
			Answer: `content_type: application/json
body: '{"error":{"type":"invalid_request_error","code":"rate_limit","message":"Request rate limit exceeded."}}'
denied: {Stripe-Rate-Limited-Reason: global-rate}
limits: {slots: {denied: {Stripe-Rate-Limited-Reason: global-concurrency}}}
`,
			Differs: []string{
				"Stripe has had the same again for writes: write a rule for the methods of each",
				"test mode has 25 a second",
				"Stripe does not say how many requests may be in flight: 100 is the number of the example that its engineers published",
				"the limits of single endpoints and resources are rules of their own, and its load shedders have no counterpart",
			},
			Vectors: []Vector{
				{Name: "Stripe: 100 at once, then 100 a second", Steps: []Step{
					all(0, 100, 0),
					deny(0, 1, 0, 10*ms),
					all(100*ms, 10, 0),
				}},
				{Name: "Stripe: of 2 requests in flight, as of its 100", InFlight: 2, Steps: twoInFlight()},
			},
		},
	}
}

const githubAnswer = `content_type: application/json; charset=utf-8
body: '{"message":"API rate limit exceeded","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}'
fields:
  x-ratelimit-limit: "{limit}"
  x-ratelimit-remaining: "{remaining}"
  x-ratelimit-used: "{used}"
  x-ratelimit-reset: "{reset_unix}"
  x-ratelimit-resource: core
`

// twoInFlight are requests of which 2 run at once: the third is denied until one of
// them ends, or for as long as one may run whose end is not known.
func twoInFlight() []Step {
	return []Step{
		pass(0, 1, 1),
		pass(0, 1, 0),
		deny(0, 1, 0, minute),
		pass(sec, 1, 0).ends(),
		deny(sec, 1, 0, 59*sec),
	}
}

func githubDiffers() []string {
	return []string{
		"GitHub answers 403 or 429; here it is 403",
		"the secondary limits by points and by content are rules of their own: 900/min, and 80/min for POST, PATCH, PUT and DELETE",
		"/rate_limit does not count there: write except_path: /rate_limit",
	}
}
