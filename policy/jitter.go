// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxJitter is the longest time that a [Jitter] may add.
const maxJitter = 24 * time.Hour

// Jitter is the most by which the time to retry is lengthened in answers to denials, so that
// clients which are denied together do not all return together. Each answer adds a random
// part of it: a part derived from the key would be the same for all clients of one budget.
// The zero Jitter adds nothing.
type Jitter struct {
	Most    time.Duration // at most; 0 if there is a Percent
	Percent int           // of the wait, at most: 1 to 100
}

// ParseJitter reads a time, "30s", or a share of the wait, "20%".
// The error says what to write.
func ParseJitter(text string) (j Jitter, err error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		j.Percent, err = strconv.Atoi(number)
	} else {
		j.Most, err = time.ParseDuration(text)
	}
	if problem := j.problem(); err != nil || problem != "" || j == (Jitter{}) {
		return Jitter{}, fmt.Errorf("%q is no time to add; use one up to %v, such as 30s, or a share of the wait up to 100%%, such as 20%%, or leave it out", text, maxJitter)
	}
	return j, nil
}

// problem returns the fault of j, "" if it has none.
func (j Jitter) problem() string {
	switch {
	case j.Most < 0 || j.Most > maxJitter:
		return fmt.Sprintf("%v must be 0 to %v", j.Most, maxJitter)
	case j.Percent < 0 || j.Percent > 100:
		return fmt.Sprintf("%d%% must be 0 to 100%%", j.Percent)
	case j.Most > 0 && j.Percent > 0:
		return "a time, and a share of the wait; use one of them"
	default:
		return ""
	}
}
