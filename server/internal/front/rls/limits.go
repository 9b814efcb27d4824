// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
)

// counters are the plans of the counters, by unit. The service counts all hits of a descriptor in
// a window, denied ones too, and compares the count with the limit of the request. So the quota
// of a counter is one that no window exceeds, hits are charged whether they fit or not, and the
// limit is compared here: see [status].
var counters = func() (plans [len(unitNames)]*sluice.Plan) {
	for u := ratelimit.Second; int(u) < len(plans); u++ {
		plans[u] = counterOf(u.String(), u.Window())
	}
	return plans
}()

// counterOf returns the plan of a counter.
func counterOf(name string, window time.Duration) *sluice.Plan {
	return sluice.Must(sluice.Compile((*config.RLS)(nil).Scope(), sluice.Limit{
		Name: name, Quota: sluice.MaxQuota, Window: window, Algorithm: sluice.FixedWindow{},
	}))
}

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
	came  front.Brought[terms, *limit]
}

// terms are those of a limit that a request brings.
type terms struct {
	unit           ratelimit.Unit
	units, perUnit uint32
}

// limit is a limit of the files, or one that a request brings.
type limit struct {
	*ratelimit.Limit
	plan    *sluice.Plan // what hits are taken from; nil: they are counted, or it has slots
	counter *sluice.Plan // what hits are counted by; nil: they are taken, or it has slots
	none    bool         // hits are taken from a limit of 0
	// By the index of a limit of the plan:
	stated []*pb.RateLimitResponse_RateLimit // as answers state it
	terms  []*sluice.Term                    // as records state it; nil of slots
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
		l.known[known] = newLimit(known, c.Together)
	}
	return l, nil
}

// newLimit returns a limit as requests use it. With together, hits are taken.
func newLimit(of *ratelimit.Limit, together bool) *limit {
	l := &limit{Limit: of}
	compile := func(limits ...sluice.Limit) *sluice.Plan { // those of a file have been compiled before
		return sluice.Must(sluice.Compile((*config.RLS)(nil).Scope(), limits...))
	}
	add := func(stated *pb.RateLimitResponse_RateLimit, t *sluice.Term) {
		stated.Name = of.Name
		l.stated, l.terms = append(l.stated, stated), append(l.terms, t)
	}
	window := sluice.Limit{Quota: max(int64(of.PerUnit), 1), Window: of.Window(), Algorithm: sluice.FixedWindow{}}
	switch {
	case of.Unlimited:
	case of.Slots.Cap > 0:
		add(&pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(of.Slots.Cap)}, nil)
	case len(of.Limits) > 0:
		l.plan = compile(of.Limits...)
		for i := range l.plan.Len() {
			t := *l.plan.Term(i)
			t.Name = limitName(of.Path + "." + t.Name)
			add(statedOf(&t.Limit), &t)
		}
	default:
		stated, counter := &pb.RateLimitResponse_RateLimit{RequestsPerUnit: of.PerUnit, Unit: unitNames[of.Unit]}, counters[of.Unit]
		if of.Units > 1 {
			stated.UnitMultiplier, counter = wrapperspb.UInt32(of.Units), counterOf(of.Unit.String()+"."+strconv.FormatUint(uint64(of.Units), 10), of.Window())
		}
		if l.counter = counter; together {
			l.plan, l.none, l.counter = compile(window.WithName(counter.Term(0).Name)), of.PerUnit == 0, nil // its state is that of the counter
		}
		window.CountDenied = !together
		add(stated, compile(window.WithName(limitName(of.Path))).Term(0))
	}
	return l
}

// statedOf returns a limit as answers state it: without a unit if its window is not whole seconds.
func statedOf(l *sluice.Limit) *pb.RateLimitResponse_RateLimit {
	stated := &pb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(min(l.Quota, math.MaxUint32))}
	if w, _ := l.Algorithm.(sluice.FixedWindow); w.Calendar != sluice.NoCalendar {
		of := [...]ratelimit.Unit{sluice.Day: ratelimit.Day, sluice.Week: ratelimit.Week, sluice.Month: ratelimit.Month, sluice.Year: ratelimit.Year}
		stated.Unit = unitNames[of[w.Calendar]]
		return stated
	}
	for _, u := range []ratelimit.Unit{ratelimit.Day, ratelimit.Hour, ratelimit.Minute, ratelimit.Second} {
		if l.Window%u.Window() == 0 {
			if stated.Unit = unitNames[u]; l.Window > u.Window() {
				stated.UnitMultiplier = wrapperspb.UInt32(uint32(l.Window / u.Window()))
			}
			break
		}
	}
	return stated
}

// brought returns a limit that a request brings.
func (l *limits) brought(t terms) *limit {
	of, _ := l.came.Of(t, func() (*limit, error) {
		return newLimit(&ratelimit.Limit{Path: "brought", Unit: t.unit, Units: t.units, PerUnit: t.perUnit}, l.Together), nil
	})
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

// bounded returns a text of at most maxKey bytes: a longer one ends with a hash of all of it.
func bounded(text string) string {
	if len(text) <= maxKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	end := hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(text[:maxKey-len(end)], "") + end
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

// Notes returns the keys without effect in the files that a listener names, in order. Files with
// faults have none.
func Notes(c *config.RLS) config.Faults {
	files, _ := readFiles(c.Files) // Check has the faults
	_, notes, _ := ratelimit.Parse(files, c.Merge)
	return notes
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
