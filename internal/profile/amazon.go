// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"net/http"

	"github.com/sluicegate/sluice"
)

const ec2Answer = `content_type: text/xml
body: <Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors></Response>
`

// amazon are the services of Amazon.
func amazon() []Profile {
	const throttling = "https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html"
	return []Profile{
		{
			Name: "amazon-mws", Title: "Amazon MWS, SubmitFeed: a quota of 15, one restored every 2 minutes, 30 an hour",
			Source: "https://docs.developer.amazonservices.com/en_US/dev_guide/DG_Throttling.html",
			Limits: limits("1/2min burst 15", "30/h fixed-window"),
			Status: http.StatusServiceUnavailable,
			Answer: `content_type: text/xml
body: <ErrorResponse><Error><Type>Sender</Type><Code>RequestThrottled</Code><Message>Request is throttled</Message></Error></ErrorResponse>
fields: {x-mws-quota-max: "{fixed-window.hour.limit}.0", x-mws-quota-remaining: "{fixed-window.hour.remaining}.0", x-mws-quota-resetsOn: "{fixed-window.hour.reset_date}"}
limits: {fixed-window.hour: {body: "<ErrorResponse><Error><Type>Sender</Type><Code>QuotaExceeded</Code><Message>The quota is used up until {reset_time}</Message></Error></ErrorResponse>"}}
`,
			Differs: []string{
				"the answer has no RequestId and no x-mws-timestamp",
				"the service was closed on 2024-03-31",
			},
			Vectors: []Vector{
				{Name: "MWS SubmitFeed", Steps: []Step{
					pass(0, 15, 0).reset(30 * minute),
					deny(0, 1, 0, 2*minute).reset(30 * minute),
					{At: 2 * minute, Cost: 1, Times: 15, Every: 2 * minute, Allowed: 15, ResetAfter: 30 * minute},
					deny(32*minute, 1, 0, 28*minute).reset(28 * minute),
				}},
			},
		},
		{
			Name: "api-gateway", Title: "Amazon API Gateway, the default of an account: 10,000 a second, a burst of 5,000",
			Source: "https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-request-throttling.html",
			Limits: limits("10000/s burst 5000"),
			Status: http.StatusTooManyRequests,
			Answer: `content_type: application/json
body: '{"message":"Too Many Requests"}'
denied: {x-amzn-ErrorType: TooManyRequestsException}
`,
			Differs: []string{
				"the limits of a usage plan, of a stage and of a method are rules of their own: api-gateway-usage-plan has the first",
				"Amazon's limits are targets, met as well as can be; these are exact",
			},
			Vectors: []Vector{
				{Name: "API Gateway: 5,000 in 1 ms and 5,000 over the next 999 ms all pass", Steps: []Step{
					{Cost: 1, Times: 5000, Allowed: 5000},
					{At: ms, Cost: 1, Times: 5000, Every: 199 * us, Allowed: 5000, Remaining: 4958},
				}},
				{Name: "API Gateway: of 5,000 in the 1st ms and 5,000 in the 101st 6,000 pass", Steps: []Step{
					{Cost: 1, Times: 5000, Allowed: 5000},
					{At: 100 * ms, Cost: 1, Times: 5000, Allowed: 1000, RetryAfter: 100 * us},
				}},
			},
		},
		{
			Name: "api-gateway-usage-plan", Title: "Amazon API Gateway, a usage plan: 5 a second, a burst of 10, 500 a month",
			Source: "https://docs.aws.amazon.com/cli/latest/reference/apigateway/create-usage-plan.html",
			Limits: limits("5/s burst 10", "quota: 500/month calendar UTC"),
			Status: http.StatusTooManyRequests,
			Answer: `content_type: application/json
body: '{"message":"Too Many Requests"}'
denied: {x-amzn-ErrorType: TooManyRequestsException}
limits: {quota: {body: '{"message":"Limit Exceeded"}', denied: {x-amzn-ErrorType: LimitExceededException}}}
`,
			Differs: []string{
				"an offset, which is what is less in the first period, is an initial: 500/month calendar UTC initial 300 with an offset of 200",
				"a period begins at midnight of UTC here; of Amazon's it is not said",
				"Amazon's limits are targets, met as well as can be; these are exact",
			},
			Vectors: []Vector{
				{Name: "API Gateway, a usage plan: 10 at once, then 5 a second, 500 in a month", Steps: []Step{
					all(0, 10, 0),
					deny(0, 1, 0, 200*ms),
					{At: sec, Cost: 1, Times: 490, Every: 200 * ms, Allowed: 490},
					deny(200*sec, 1, 0, 31*24*hour-200*sec),
					pass(31*24*hour, 1, 9),
				}},
				{
					Name:   "API Gateway, a usage plan with an offset of 200: 300 in the first month, 500 in the next",
					Limits: limits("500/month calendar UTC initial 300"),
					Steps: []Step{
						pass(0, 300, 0),
						deny(30*24*hour, 1, 0, 24*hour),
						pass(31*24*hour, 500, 0),
					},
				},
			},
		},
		{
			Name: "ec2-describe-hosts", Title: "Amazon EC2, the requests of DescribeHosts: a bucket of 100, 20 a second",
			Source:  throttling,
			Limits:  limits("20/s burst 100"),
			Status:  http.StatusServiceUnavailable,
			Answer:  ec2Answer,
			Differs: []string{"the answer has no RequestID"},
			Vectors: []Vector{
				{Name: "EC2 DescribeHosts", Steps: []Step{
					pass(0, 100, 0).reset(5 * sec),
					deny(0, 1, 0, 50*ms).reset(5 * sec),
					pass(sec, 20, 0).reset(5 * sec),
					never(6*sec, 101, 100),
				}},
			},
		},
		{
			Name: "ec2-run-instances", Title: "Amazon EC2, the requests of RunInstances: a bucket of 5, 2 a second",
			Source: throttling,
			Limits: limits("2/s burst 5"),
			Status: http.StatusServiceUnavailable,
			Answer: ec2Answer,
			Differs: []string{
				"the answer has no RequestID",
				"the instances that a request starts are a bucket of their own, ec2-run-instances-resources: write two rules, of which both must have room",
			},
			Vectors: []Vector{
				{Name: "EC2 RunInstances, requests", Steps: []Step{
					all(0, 5, 0).reset(2500 * ms),
					deny(0, 1, 0, 500*ms).reset(2500 * ms),
				}},
				{
					Name:   "EC2 RunInstances: requests and resources must both pass",
					Limits: limits("requests: 2/s burst 5", "resources: 2/s burst 1000"),
					Steps: []Step{
						pass(0, 5, 0).reset(2500 * ms),
						deny(0, 1, 0, 500*ms).reset(2500 * ms),
						pass(2500*ms, 1, 5).peeked(),
					},
				},
			},
		},
		{
			Name: "ec2-run-instances-resources", Title: "Amazon EC2, the instances of RunInstances: a bucket of 1000, 2 a second",
			Source:  throttling,
			Limits:  limits("2/s burst 1000"),
			Status:  http.StatusServiceUnavailable,
			Answer:  ec2Answer,
			Differs: []string{"a request costs a unit for each instance that it starts: write a cost into the rule, such as {request_header: X-Instances, most: 100}"},
			Vectors: []Vector{
				{Name: "EC2 RunInstances, resources", Steps: []Step{
					pass(0, 990, 10).reset(495 * sec),
					deny(0, 20, 10, 5*sec).reset(495 * sec),
					pass(5*sec, 20, 0).reset(500 * sec),
				}},
			},
		},
		{
			Name: "ebs-gp2", Title: "Amazon EBS, credits of a gp2 volume of 100 GiB: 5.4 million, 300 a second",
			Source:  "https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html",
			Limits:  limits("300/s burst 5400000"),
			Differs: []string{"a volume is never faster than 3000 a second: a second limit, such as 3000/s leaky-bucket"},
			Vectors: []Vector{
				{Name: "EBS gp2 of 100 GiB: 3000 a second last for 5.4 million/2700 s, which is 1999 to 2000", Steps: []Step{
					{Cost: 3000, Times: 1999, Every: sec, Allowed: 1999, Remaining: 5_400_000 - 3000 - 2700*1998, ResetAfter: 17992 * sec},
					deny(1999*sec, 3000, 2700, sec).reset(17991 * sec),
				}},
			},
		},
		{
			Name: "ec2-t2-micro", Title: "Amazon EC2, CPU credits of a t2.micro: 6 an hour, at most 144",
			Source:  "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html",
			Limits:  limits("6/h burst 144"),
			Differs: []string{"launch credits are an initial, 6/h burst 144 initial 30; those that are not spent count towards the 144 here", "a T2 instance loses its credits when it is stopped"},
			Vectors: []Vector{
				{Name: "CPU credits of a t2.micro", Steps: []Step{
					pass(0, 144, 0).reset(24 * hour),
					pass(23*hour, 138, 0).reset(24 * hour),
					pass(47*hour, 144, 144).peeked(),
				}},
				{Name: "CPU credits of a t2.micro with 30 launch credits", Limits: limits("6/h burst 144 initial 30"), Steps: []Step{
					deny(0, 31, 30, 10*minute).reset(19 * hour),
					pass(0, 30, 0).reset(24 * hour),
					pass(hour, 6, 0).reset(24 * hour),
					pass(25*hour, 144, 144).peeked(),
				}},
			},
		},
		{
			Name: "ec2-t3-nano-unlimited", Title: "Amazon EC2, CPU credits of a t3.nano in unlimited mode: 6 an hour, at most 144, as many in debt",
			Source:  "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-performance-instances-unlimited-mode-concepts.html",
			Limits:  limits("6/h burst 144 debt 144"),
			Differs: []string{"what is spent beyond the debt is not recorded; Amazon puts a price on it"},
			Vectors: []Vector{
				{Name: "CPU credits of a t3.nano: an overdraft is repaid first", Steps: []Step{
					{Op: sluice.OpCharge, Cost: 204, Allowed: 1, Spent: 204},
					deny(0, 1, 0, 10*hour+10*minute),
					deny(10*hour, 1, 0, 10*minute),
					pass(10*hour+10*minute, 1, 0),
				}},
			},
		},
	}
}
