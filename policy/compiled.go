// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
)

// rule is a compiled Rule.
type rule struct {
	needs    needs
	simple   bool  // see isSimple
	bare     bool  // the index checks all that the rule matches
	cost     int64 // of each request, unless needsCost
	levels   []level
	patterns []pattern
	except   []pattern
	Rule
}

// level is a compiled Level.
type level struct {
	*Level
	parts      []keyPart
	limited    bool // it has limits besides those of requests in flight
	base       *set // nil if not limited, or if requests without a tier have no limits
	overrides  map[string]override
	exempt     map[string]struct{}
	scope      string
	inFlight   sluice.SlotLimit
	tierPart   keyPart
	tiers      map[string]*set // nil: the tier has no limits
	candidates []candidate
}

// keyPart is a Part with its finder, which groups addresses, and its own parts.
type keyPart struct {
	Part
	finder *clientip.Finder
	of     []keyPart
}

// set is a compiled list of limits.
type set struct {
	take *sluice.Plan // hard limits and, last, the soft one
	over *sluice.Plan // hard limits and the grace limit; nil without a soft limit
	all  *sluice.Plan // all of them
	// counts says that a limit of take counts denied requests.
	counts bool

	named, namedOver   atomic.Pointer[[]namedTerm] // the limits of take and over
	shares, sharesOver sync.Map                    // the same for a node's share: int32, the number of nodes, to shares
}

// namedTerm is a limit by the name that clients know.
type namedTerm struct {
	sluice.Term
	alone [1]string // the name, as a list
}

// shares are a node's shares of a plan's limits, by their names and by those clients know.
type shares struct {
	terms []sluice.Term
	named []namedTerm
}

// soft returns the index of the soft limit in take, -1 if none is soft.
func (s *set) soft() int {
	if s.over == nil {
		return -1
	}
	return s.take.Len() - 1
}

type override struct {
	set     *set
	expires time.Time
}

func (o *override) valid(now time.Time) bool { return o.expires.IsZero() || now.Before(o.expires) }

type candidate struct {
	*Candidate
	plans map[*set]*sluice.Plan // by the limits that they would replace
}

func (l *level) tier(value string) *set {
	if s, ok := l.tiers[value]; ok && value != "" {
		return s
	}
	return l.base
}

// set returns the limits of a key of v's request, nil if it has none. The error says why the
// request cannot be charged: the token that holds its tier is not usable.
func (r *rule) set(l *level, key string, v *Verdict, by hit) (*set, error) {
	if len(l.overrides) > 0 {
		if o, ok := l.overrides[key]; ok && (o.expires.IsZero() || o.valid(v.now())) {
			return o.set, nil
		}
	}
	if l.Tiers == nil {
		return l.base, nil
	}
	value, err := r.value(&l.tierPart, v.attributes, &v.matches, by)
	bad, ok := err.(*PartError) //nolint:errorlint // value returns no other kind of it
	switch {
	case err == nil:
		return l.tier(value), nil
	case !ok || bad.ofToken():
		return nil, err
	default:
		return l.base, nil
	}
}
