// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

// Name returns what clients are told that the limit is called: as its rule is, or
// RULE/LIMIT where a key of the rule is under several, with the level between them
// in a hierarchy.
func (o *Outcome) Name() string { return limitName(o.Rule, o.Level, o.Limit.Name) }

// Name returns what clients are told that the limit is called that they went over.
func (w *Warning) Name() string { return levelName(w.Rule, w.Level) }

// limitName returns a limit's name among all of a policy.
func limitName(r *Rule, l *Level, limit string) string {
	name := levelName(r, l)
	if several(l) {
		name += "/" + limit
	}
	return name
}

func levelName(r *Rule, l *Level) string {
	if l.Name == "" {
		return r.Name
	}
	return r.Name + "/" + l.Name
}

// several reports whether a key of the level may be under more than one limit.
func several(l *Level) bool {
	if more(l.Limits) {
		return true
	}
	for i := range l.Overrides {
		if more(l.Overrides[i].Limits) {
			return true
		}
	}
	if l.Tiers != nil {
		for _, limits := range l.Tiers.Limits {
			if more(limits) {
				return true
			}
		}
	}
	return false
}

func more(limits []Limit) bool {
	return len(limits) > 1 || len(limits) == 1 && limits[0].Grace != nil
}
