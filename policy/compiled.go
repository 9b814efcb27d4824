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

// rule is a Rule, compiled.
type rule struct {
	needs    needs
	simple   bool  // see isSimple
	bare     bool  // the index has checked all that it asks for
	cost     int64 // of each request; as needsCost says, another may be asked for
	levels   []level
	patterns []pattern
	except   []pattern
	Rule
}

// level is a Level, compiled.
type level struct {
	*Level
	parts      []keyPart
	limited    bool // not only requests in flight
	base       *set // nil if it is not, or a request without a tier has no limits
	overrides  map[string]override
	exempt     map[string]struct{}
	scope      string
	inFlight   sluice.SlotLimit
	tierPart   keyPart
	tiers      map[string]*set // nil: of one without limits
	candidates []candidate
}

// keyPart is a Part, with what groups addresses.
type keyPart struct {
	Part
	finder *clientip.Finder
	of     []keyPart
}

// set is a list of limits, compiled.
type set struct {
	take *sluice.Plan // hard limits and the soft one, which is the last
	over *sluice.Plan // hard limits and the grace limit, if one is soft
	all  *sluice.Plan // all of them
	// counts says that a limit of take counts denied requests.
	counts bool

	named, namedOver   atomic.Pointer[[]namedTerm] // those of take and over
	shares, sharesOver sync.Map                    // the same of a share: int32, of how many nodes, to shares
}

// namedTerm is a limit by the name that clients know.
type namedTerm struct {
	sluice.Term
	alone [1]string // the name, as a list
}

// shares are the shares of a node of a plan's limits, as the plan and as clients name them.
type shares struct {
	terms []sluice.Term
	named []namedTerm
}

// soft returns which limit of take is the soft one, -1 if none is.
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
	plans map[*set]*sluice.Plan // by the limits in whose place they stand
}

func (l *level) tier(value string) *set {
	if s, ok := l.tiers[value]; ok && value != "" {
		return s
	}
	return l.base
}

// set returns the limits of a key of v's request, nil if it has none. The error says why the request cannot be
// charged: its token, which says under which tier it is, cannot be used.
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
