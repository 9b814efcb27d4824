// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package spec is the rules of sluice as a program: slow, obvious and written from the
// documents, without package algo. It records every unit that a [Store] admitted, with its
// instant, and checks each further decision by that list: whether it may be allowed, whether
// it must be allowed, and every number of the answer.
//
// If the documents state a decision, a rule gives one value. If they leave a choice, or state
// only a bound, it gives the least and the most that they allow, and a comment says so. These
// are checked:
//
//   - Bounds: units admitted never exceed the bound of the limits used, under
//     any change of version (checkBound).
//   - Decisions: a request that fits is allowed and any other is denied (checkFits),
//     with Remaining, RetryAfter and ResetAfter (checkOutcome), Delay, At and
//     Due (checkTake, checkReserve).
//   - Blocks: a key that the limits beside a block deny Quota times is denied for its length,
//     and nothing else counts (countDenial).
//   - Warm-ups: a cold key is slower as documented, at any instants of its requests (warmth).
//   - Refunds: never more than still counts (checkRefund).
//   - Peeks and denials change nothing (asks).
//   - Steps of the clock back: a key that had a unit left waits no longer than documented
//     (stepBack).
//
// Three drivers send requests to a store: [Exhaustive] all sequences of a few operations,
// [BreadthFirst] sequences to all states of the specification that can be reached, [Random]
// long sequences over limits of every form. A sequence that fails is shortened and printed.
//
// Not checked: calendars, slots, units admitted after a step of the clock back, evictions,
// more than four forms under one name.
package spec
