// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// counters are the plans of the counters, by unit. The service counts all hits of a descriptor in
// a window, denied ones too, and compares the count with the limit of the request. So the quota
// of a counter is one that no window exceeds, hits are charged whether they fit or not, and the
// limit is compared here: see [status].
var counters = func() (plans [len(unitNames)]*sluice.Plan) {
	for u := ratelimit.Second; int(u) < len(plans); u++ {
		plans[u] = sluice.Must(sluice.Compile((*config.RLS)(nil).Scope(), sluice.Limit{
			Name: u.String(), Quota: sluice.MaxQuota, Window: u.Window(), Algorithm: sluice.FixedWindow{},
		}))
	}
	return plans
}()

// unitNames are the units of the protocol.
var unitNames = [...]pb.RateLimitResponse_RateLimit_Unit{
	pb.RateLimitResponse_RateLimit_UNKNOWN, pb.RateLimitResponse_RateLimit_SECOND, pb.RateLimitResponse_RateLimit_MINUTE,
	pb.RateLimitResponse_RateLimit_HOUR, pb.RateLimitResponse_RateLimit_DAY, pb.RateLimitResponse_RateLimit_MONTH,
	pb.RateLimitResponse_RateLimit_YEAR, pb.RateLimitResponse_RateLimit_WEEK,
}

// limits are the limits of a configuration.
type limits struct {
	*config.RLS
	files *ratelimit.Config
	known map[*ratelimit.Limit]*limit

	mu   sync.RWMutex
	came map[terms]*limit // that requests have brought
}

// terms are those of a limit that a request brings.
type terms struct {
	unit    ratelimit.Unit
	perUnit uint32
}

// mostBrought is how many limits that requests have brought are kept.
const mostBrought = 4096

// limit is a limit of the files, or one that a request brings.
type limit struct {
	*ratelimit.Limit
	stated *pb.RateLimitResponse_RateLimit // as answers state it
	term   *sluice.Term                    // as records state it
}

// newLimits reads the files.
func newLimits(c *config.RLS) (*limits, error) {
	files, err := readFiles(c.Files)
	if err != nil {
		return nil, err
	}
	l := &limits{RLS: c, known: make(map[*ratelimit.Limit]*limit)}
	if l.files, _, err = ratelimit.Parse(files, c.Merge); err != nil {
		return nil, err
	}
	for known := range l.files.Limits() {
		l.known[known] = newLimit(known)
	}
	return l, nil
}

// newLimit returns a limit as requests use it.
func newLimit(of *ratelimit.Limit) *limit {
	l := &limit{Limit: of}
	if of.Unlimited {
		return l
	}
	l.stated = &pb.RateLimitResponse_RateLimit{Name: of.Name, RequestsPerUnit: of.PerUnit, Unit: unitNames[of.Unit]}
	plan := sluice.Must(sluice.Compile((*config.RLS)(nil).Scope(), sluice.Limit{
		Name: limitName(of.Path), Quota: max(int64(of.PerUnit), 1), Window: of.Unit.Window(), Algorithm: sluice.FixedWindow{}, CountDenied: true,
	}))
	l.term = plan.Term(0)
	return l
}

// brought returns a limit that a request brings.
func (l *limits) brought(t terms) *limit {
	l.mu.RLock()
	of := l.came[t]
	l.mu.RUnlock()
	if of != nil {
		return of
	}
	of = newLimit(&ratelimit.Limit{Path: "brought", Unit: t.unit, PerUnit: t.perUnit})
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.came) >= mostBrought || l.came == nil {
		l.came = make(map[terms]*limit)
	}
	l.came[t] = of
	return of
}

// limitName returns a path as the name of a limit.
func limitName(path string) string {
	const most = 64
	clean := strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_':
			return c
		default:
			return '-'
		}
	}, path)
	return clean[max(len(clean)-most, 0):]
}

// keyOf returns the key of a descriptor's counter: its domain, and each entry after a bar.
func keyOf[E ratelimit.Entry](domain string, entries []E, shared []string) string {
	var room [256]byte
	b := appendEscaped(room[:0], domain, false)
	for i := range entries {
		value := entries[i].GetValue()
		if shared != nil && shared[i] != "" {
			value = shared[i]
		}
		b = appendEscaped(append(b, '|'), entries[i].GetKey(), true)
		b = appendEscaped(append(b, '='), value, false)
	}
	return string(b)
}

// appendEscaped appends a text without bars, and without equals signs in a key.
func appendEscaped(b []byte, text string, key bool) []byte {
	if !strings.ContainsAny(text, "%|") && (!key || strings.IndexByte(text, '=') < 0) {
		return append(b, text...)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			b = append(b, "%25"...)
		case c == '|':
			b = append(b, "%7C"...)
		case c == '=' && key:
			b = append(b, "%3D"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// Check returns the faults of the files that a listener names, by the names that it gives.
func Check(c *config.RLS) map[string]error {
	faults := make(map[string]error)
	for _, name := range c.Files {
		if _, err := readFiles([]string{name}); err != nil {
			faults[name] = err
		}
	}
	if len(faults) > 0 {
		return faults
	}
	if _, err := newLimits(c); err != nil { // its text names the files
		faults[c.Files[0]] = err
	}
	return faults
}

// Paths returns the files that names stand for: those of a folder whose names end in .yaml or
// .yml, and do not begin with a dot.
func Paths(names []string) (paths []string, err error) {
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			paths = append(paths, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		before := len(paths)
		for _, e := range entries {
			if end := filepath.Ext(e.Name()); (end == ".yaml" || end == ".yml") && !strings.HasPrefix(e.Name(), ".") {
				paths = append(paths, filepath.Join(name, e.Name()))
			}
		}
		if len(paths) == before {
			return nil, errors.New(name + ": no file in it ends in .yaml; put the limits there")
		}
	}
	return paths, nil
}

// readFiles reads the files that names stand for.
func readFiles(names []string) ([]ratelimit.File, error) {
	paths, err := Paths(names)
	if err != nil {
		return nil, err
	}
	files := make([]ratelimit.File, len(paths))
	for i, path := range paths {
		files[i].Name = path
		if files[i].Data, err = os.ReadFile(path); err != nil { //nolint:gosec // the operator names it
			return nil, err
		}
	}
	return files, nil
}
