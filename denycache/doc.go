// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package denycache wraps a [sluice.Store] so that it need not be asked again
// about a key that it has just denied.
//
// A denial says for how long the same cost will not fit if nothing else comes,
// and whatever else is taken can only make that longer. So until then the
// answer is known. The cache remembers for each key the smallest cost that was
// denied and until when, counted on the monotonic clock from before the request
// was sent, and for a second at most. A client that keeps pressing a key far
// over its limit then costs the store next to nothing.
//
// Once the denial of a pressed key has ended, one take asks the store. The others
// wait for what it learns, as long as that call takes and never twice: mostly the
// one unit that has come back is gone with it, and they are denied.
//
// It answers plain takes: [sluice.OpTake] with one charge and no MaxWait, under
// one limit or several. It is off where a denial changes something: under a
// limit that counts denied requests, or one whose keys start with less than
// full.
//
// Requests that ask for the outcomes of several limits are sent on: of the
// limits that had room at the denial, only the store knows what has been spent
// since, by other plans of the scope or other processes. A caller may act on
// that: a policy charges a grace limit where only the soft one denied.
//
// Slots are passed on as they are: others release theirs at any time.
//
// # What it promises
//
// A request is denied here only if the store would deny it at that instant.
// Whatever could give units back through this cache (a refund, a reset, a
// charge, a take under a changed limit) forgets the key before it is sent, and
// nothing is remembered about the key until it has come back. What is given
// back elsewhere is seen after [MaxAge] at the latest; so is a jump of the
// store's clock, a state that the store lost, and a refund that fails here but
// reaches the store later.
//
// RetryAfter, ResetAfter and the instants are counted down, as the store's own
// would be. Costs above the one remembered are answered only where the answer
// follows exactly: under one token or leaky bucket whose units last whole
// microseconds, and under one fixed window. Remaining is exact for these, unless
// the cost takes the whole bucket or the limit has just been changed, and for a
// cost of 1; else it is what it was at the denial, and the store may have more by
// now.
package denycache
