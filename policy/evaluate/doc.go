// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package evaluate decides requests under the rules of package policy with a store.
//
// [New] makes an [Evaluator]. The server of a protocol gives its Decide the attributes of each
// request and a [Call], answers by the Call's [Event], and settles the Call once the response
// is known:
//
//	evaluator, err := evaluate.New(evaluate.Options{Store: store, Rules: rules})
//	…
//	var call evaluate.Call
//	evaluator.Decide(ctx, attributes, &call)
//	if !call.Verdict.Passes() {
//		return refusal(&call.Event)
//	}
//	defer func() { call.Settle(ctx, response) }()
//
// The files, in the order in which to read them; data follows the code that uses it:
//
//   - evaluator.go: Evaluator: New, Decide
//   - explain.go: Explain: a decision in words, without a charge
//   - explainstore.go: a store that answers and changes nothing
//   - body.go: bodies charged while they are read
//   - call.go: Call: one request, from the verdict to the settlement
//   - charges.go: charges of a request for operations other than Decide
//   - rpc.go: codes of RPCs
//   - event.go: Event: a verdict and its reason
//   - settle.go: charges corrected by the response
//   - presumed.go: units charged before the response is known
//   - ask.go: the calls of the store
//   - hold.go: charges that are held until the response is known
//   - inflight.go: slots of requests in flight
//   - turn.go: instants that delayed requests wait for
//   - delay.go: how long a request may wait
//   - queue.go: Queue: places for requests that wait
//   - charge.go: the charges of a request
//   - trial.go: the results of shadow rules and candidates
//   - verdict.go: Verdict: the outcome of each limit
//   - names.go: limits by the names that clients know
//   - needs.go: what of a decision a rule needs
//   - rules.go: rules and limits, prepared
//   - cost.go: the cost of a request before and after
//   - options.go: Options
//   - overrides.go: Overrides: limits of single keys that change
package evaluate
