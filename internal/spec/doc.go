// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package spec is the rules of sluice as a program: slow, obvious and written
// from the documents, without a line of package algo. It remembers every unit
// that a [Store] admitted, with its instant, and checks each further decision
// by that list: whether it may be allowed, whether it must be, and every number
// of the answer.
//
// Where the documents state what a decision is, a rule gives one value. Where
// they leave a choice, or state a bound only, it gives the least and the most
// that they allow, and says so in a comment. What is evaluated:
//
//   - Bounds: units admitted never exceed the bound of the limits used, under
//     any change of version (checkBound).
//   - Decisions: what fits is allowed and what does not is denied (checkFits),
//     with Remaining, RetryAfter and ResetAfter (checkOutcome), Delay, At and
//     Due (checkTake, checkReserve).
//   - Blocks: a key that the limits beside a block deny so often is denied for as
//     long as it says, and nothing else counts (countDenial).
//   - Warm-ups: a cold key is as much slower as they say, at whatever instants it is
//     asked (warmth).
//   - Refunds: never more than what still counts (checkRefund).
//   - Peeks and denials change nothing (checkAsked).
//   - Steps of the clock back: a key that had a unit left waits no longer than they say
//     (stepBack).
//
// Three drivers put requests to a store: [Exhaustive] all sequences of a few
// operations, [BreadthFirst] all states of the specification that can be
// reached, [Random] long sequences over limits of every form. A sequence that
// fails is shortened and printed.
//
// Not evaluated: calendars, concurrency slots, what is admitted behind a step of
// the clock back, evictions, more than four forms under one name.
package spec
