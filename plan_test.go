// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

func term(tb testing.TB, scope string, l sluice.Limit) *sluice.Term {
	tb.Helper()
	return testkit.Compile(tb, scope, l).Term(0)
}

func TestCompileRefuses(t *testing.T) {
	many := make([]sluice.Limit, bounds.MaxLimits+1)
	for i := range many {
		many[i] = sluice.PerMinute(1).WithName(fmt.Sprint("l", i))
	}
	for _, c := range []struct {
		name   string
		scope  string
		limits []sluice.Limit
		says   []string
	}{
		{"empty scope", "", many[:1], []string{"scope of 0 bytes: must have 1 to 256"}},
		{"long scope", strings.Repeat("s", bounds.MaxScopeBytes+1), many[:1], []string{"scope of 257 bytes"}},
		{"no limits", "s", nil, []string{"0 limits: must be 1 to 16"}},
		{"too many limits", "s", many, []string{"17 limits: must be 1 to 16"}},
		{
			"one name by default",
			"s",
			[]sluice.Limit{sluice.PerMinute(1), sluice.PerHour(1), sluice.PerMinute(2)},
			[]string{`limit 3 (2/min): limit 1 has the name "token-bucket.min" too; name one of them`},
		},
		{"one name given", "s", []sluice.Limit{many[0], sluice.PerHour(5).WithName("l0")}, []string{`limit 1 has the name "l0" too`}},
		{"a name given that another has by default", "s", []sluice.Limit{sluice.PerMinute(1), sluice.PerHour(5).WithName("token-bucket.min")}, []string{`limit 1 has the name "token-bucket.min" too`}},
		{
			"everything at once",
			"",
			[]sluice.Limit{sluice.PerMinute(0), many[0], many[0], {Quota: 1, Window: time.Nanosecond, Burst: -1}},
			[]string{"scope of 0 bytes", "limit 1 (0/min)", "Quota: 0", "limit 3 (l0: 1/min)", "limit 4", "Window: 1ns", "Burst: -1"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := sluice.Compile(c.scope, c.limits...)
			if p != nil || err == nil {
				t.Fatalf("Compile = %v, %v, want an error", p, err)
			}
			for _, says := range c.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
		})
	}
	_, err := sluice.Compile("s", sluice.PerMinute(0))
	var fault *sluice.LimitError
	if !errors.As(err, &fault) || fault.Field != "Quota" {
		t.Errorf("got %v, want to find the *LimitError in it", err)
	}
}

func TestCompileKeepsOrderAndScope(t *testing.T) {
	scope := strings.Repeat("\x00", bounds.MaxScopeBytes)
	p := testkit.Compile(t, scope, sluice.PerMinute(1), sluice.PerHour(2), sluice.PerMinute(3).WithAlgorithm(sluice.SlidingLog{}))
	if got := p.Scope(); got != scope {
		t.Errorf("Scope = %q, want %q", got, scope)
	}
	if got, want := p.Len(), 3; got != want {
		t.Fatalf("Len = %d, want %d", got, want)
	}
	for i, want := range []int64{1, 2, 3} {
		if got := p.Term(i).Quota; got != want {
			t.Errorf("quota of term %d = %d, want %d", i, got, want)
		}
	}
	if got := testkit.Compile(t, scope, sluice.PerSecond(1)).ScopeID; got != p.ScopeID {
		t.Errorf("one scope has IDs %x and %x, want one", got, p.ScopeID)
	}
}

func TestTermNumbers(t *testing.T) {
	bucket := term(t, "s", sluice.Limit{Quota: 3, Window: time.Second, Burst: 4, Debt: 1})
	if got, want := bucket.Micros, int64(1e6); got != want {
		t.Errorf("Micros = %d, want %d", got, want)
	}
	if r := bucket.Rate; r.Num != 1e6 || r.Den != 3 {
		t.Errorf("Rate = %d/%d µs a unit, want 1000000/3", r.Num, r.Den)
	}
	if got := bucket.Reach; got.Micros != 1333333 || got.Rem != 1 {
		t.Errorf("Reach = %+v, want 1333333 1/3 µs", got)
	}
	if got := bucket.Most; got.Micros != 1666666 || got.Rem != 2 {
		t.Errorf("Most = %+v, want 1666666 2/3 µs", got)
	}
	interval := term(t, "s", sluice.Limit{Quota: 3, Window: time.Second, Algorithm: sluice.TokenBucket{Refill: sluice.Interval}})
	if r := interval.Rate; r.Num != 1e6 || r.Den != 1 {
		t.Errorf("Rate of intervals = %d/%d µs a window, want 1000000/1", r.Num, r.Den)
	}
	counter := term(t, "s", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 6}, Quota: 3, Window: time.Minute})
	if counter.Micros != 60e6 || counter.Sub != 10e6 {
		t.Errorf("window and sub-window = %d and %d µs, want 60000000 and 10000000", counter.Micros, counter.Sub)
	}
	if whole := term(t, "s", sluice.PerMinute(3).WithAlgorithm(sluice.SlidingCounter{})); whole.Sub != whole.Micros {
		t.Errorf("sub-window = %d, want the window of %d", whole.Sub, whole.Micros)
	}
	calendar := term(t, "s", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "Asia/Seoul"}, Quota: 3})
	if got := calendar.Location.String(); got != "Asia/Seoul" {
		t.Errorf("Location = %s, want Asia/Seoul", got)
	}
	if got, want := calendar.Micros, day.Microseconds(); got != want {
		t.Errorf("Micros of a calendar day = %d, want %d", got, want)
	}
	if got := bucket.Location; got != nil {
		t.Errorf("Location of a bucket = %v, want nil", got)
	}
}

// TestDefaultNameLeavesOutTheQuota: a limit without a name stays in its series if only its
// numbers change, and not if its algorithm or window changes.
func TestDefaultNameLeavesOutTheQuota(t *testing.T) {
	base := term(t, "s", sluice.PerMinute(100))
	for _, c := range []struct {
		text string
		same bool
	}{
		{"200/min", true},
		{"100/min burst 7", true},
		{"100/min debt 7", true},
		{"100/min initial 7", true},
		{"100/min interval-refill", true},
		{"token-bucket.min: 5/hour sliding-log", true}, // the name decides
		{"100/hour", false},
		{"100/min sliding-log", false},
		{"100B/min", false},
		{"other: 100/min", false},
	} {
		got := term(t, "s", sluice.MustParseLimit(c.text))
		if (got.Series == base.Series) != c.same {
			t.Errorf("%q is %q beside %q: same series %v, want %v", c.text, got.Name, base.Name, !c.same, c.same)
		}
		if got.ID == base.ID {
			t.Errorf("%q has the ID of %v", c.text, base.Limit)
		}
	}
}

// TestDefaultNameIsAName: the default name of any valid limit is a valid name.
func TestDefaultNameIsAName(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		l := limits().Draw(t, "limit")
		l.Name = ""
		if got := l.Filled().Name; !name.MatchString(got) {
			t.Fatalf("the default name of %q is %q", l, got)
		}
	})
}

// TestIdentity: an ID identifies scope, name and every parameter; an omitted default and its
// explicit value have one ID.
func TestIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := limits().Draw(t, "a"), limits().Draw(t, "b")
		b.Name = a.Name
		if rapid.Bool().Draw(t, "related") {
			b = tweak(t, a)
		}
		ta, tb := compileOne(t, "s", a), compileOne(t, "s", b)
		if got, want := ta.ID == tb.ID, a.Filled() == b.Filled(); got != want {
			t.Fatalf("%q and %q: same ID %v, want %v", a, b, got, want)
		}
		if got, want := ta.Series == tb.Series, ta.Name == tb.Name; got != want {
			t.Fatalf("%q and %q: same series %v, want %v", ta.Name, tb.Name, got, want)
		}
		if again := compileOne(t, "s", a.Filled()); again.ID != ta.ID || again.Series != ta.Series {
			t.Fatalf("%q with its defaults written has another identity", a)
		}
		if other := compileOne(t, "t", a); other.ID == ta.ID || other.Series == ta.Series {
			t.Fatalf("%q has one identity in two scopes", a)
		}
	})
}

// tweak returns a with one field changed to another valid value, if there is one.
func tweak(t *rapid.T, a sluice.Limit) sluice.Limit {
	b := a
	switch rapid.IntRange(0, 7).Draw(t, "field") {
	case 0:
		b.Quota++
	case 1:
		b.Burst++
	case 2:
		b.Debt++
	case 3:
		b.Window += time.Microsecond
	case 4:
		b.Unit = 1 - b.Unit
	case 5:
		b.CountDenied = !b.CountDenied
	default:
		b.Algorithm = tweakAlgorithm(t, &b)
	}
	if b.Validate() != nil {
		return a
	}
	return b
}

// tweakAlgorithm returns l's algorithm with one option changed.
func tweakAlgorithm(t *rapid.T, l *sluice.Limit) sluice.Algorithm {
	option := rapid.IntRange(0, 6).Draw(t, "option")
	change := func(changes ...func()) { changes[option%len(changes)]() }
	switch a := l.Filled().Algorithm.(type) {
	case sluice.TokenBucket:
		change(
			func() { a.InitialDeficit++ }, func() { a.Refill = (a.Refill + 1) % 3 }, func() { a.NextWaits = !a.NextWaits },
			func() { a.WarmUp += time.Microsecond }, func() { a.Credit++ }, func() { a.CreditFor += time.Microsecond })
		return a
	case sluice.LeakyBucket:
		a.DelayAfter++
		return a
	case sluice.FixedWindow:
		change(
			func() { a.InitialDeficit++ }, func() { a.OnFirst = !a.OnFirst }, func() { a.WeekStart = (a.WeekStart + 1) % 7 },
			func() { a.Zone = "Asia/Tokyo" }, func() { a.Calendar, l.Window = a.Calendar%sluice.Year+1, 0 }, func() { a.From.Time += time.Minute })
		return a
	case sluice.SlidingCounter:
		change(
			func() { a.SubWindows++ }, func() { a.Conservative = !a.Conservative }, func() { a.Strict = !a.Strict },
			func() { a.Whole = !a.Whole }, func() { a.PreFilled = !a.PreFilled })
		return a
	case sluice.SlidingHistogram:
		a.Precision++
		return a
	case sluice.Block:
		a.For += time.Microsecond
		return a
	default:
		return a
	}
}

func compileOne(t *rapid.T, scope string, l sluice.Limit) *sluice.Term {
	term, err := sluice.CompileLimit(scope, l)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// TestEveryParameterChangesTheIdentity walks through the fields one by one.
func TestEveryParameterChangesTheIdentity(t *testing.T) {
	ids := make(map[uint64]string)
	for _, text := range []string{
		"x: 100/min", "x: 101/min", "x: 100/hour", "x: 100B/min", "y: 100/min",
		"x: 100/min burst 99", "x: 100/min debt 1", "x: 100/min interval-refill",
		"x: 100/min initial 99", "x: 100/min initial 98",
		"x: 100/min leaky-bucket", "x: 100/min leaky-bucket burst 3", "x: 100/min leaky-bucket burst 3 delay-after 2", "x: 100/min leaky-bucket burst 3 nodelay",
		"x: 100/min fixed-window", "x: 100/min fixed-window anchor first",
		"x: 100/day fixed-window", "x: 100/day calendar UTC", "x: 100/day calendar Asia/Seoul", "x: 100/week calendar UTC",
		"x: 100/week calendar UTC week-starts monday", "x: 100/month calendar UTC", "x: 100/year calendar UTC",
		"x: 100/min credit 50 credit-for 24h", "x: 100/min credit 51 credit-for 24h", "x: 100/min credit 50 credit-for 23h", "x: 100/min sliding-log", "x: 100/min sliding-log count-denied", "x: 100/min count-denied", "x: 100/min fixed-window count-denied",
		"x: 100/min sliding-counter", "x: 100/min sliding-counter sub-windows 2", "x: 100/min sliding-counter conservative", "x: 100/min sliding-counter strict", "x: 100/min sliding-counter pre-filled",
		"x: 100/min sliding-counter sub-windows 2 whole", "x: 100/min fixed-window initial 7",
		"x: 100/month calendar UTC from 17", "x: 100/month calendar UTC from 00:30", "x: 100/year calendar UTC from 04-06",
		"x: 100/min sliding-histogram", "x: 100/min sliding-histogram precision 33",
	} {
		id := term(t, "s", sluice.MustParseLimit(text)).ID
		if other, taken := ids[id]; taken {
			t.Errorf("%q and %q have one ID", text, other)
		}
		ids[id] = text
	}
}

// TestIdentityDoesNotRunTogether: scope and name are hashed apart.
func TestIdentityDoesNotRunTogether(t *testing.T) {
	a := term(t, "ab", sluice.PerMinute(1).WithName("c"))
	b := term(t, "a", sluice.PerMinute(1).WithName("bc"))
	if a.Series == b.Series || a.ID == b.ID {
		t.Errorf("scope ab, name c and scope a, name bc have one identity")
	}
}

// TestIdentityIsFixed: IDs are written into snapshots and into stores that
// several versions of a program share, so they may not change.
func TestIdentityIsFixed(t *testing.T) {
	p := testkit.Compile(t, "login", sluice.MustParseLimit("5/min"))
	got := fmt.Sprintf("%016x %016x %016x", p.ScopeID, p.Term(0).Series, p.Term(0).ID)
	if want := "54125f1ab773a4d6 28f198422dbbb2fb 45ce485c6d919c94"; got != want {
		t.Errorf("scope, series and ID are %s, want %s", got, want)
	}
}

// TestPlanID: the ID distinguishes plans whose limits differ in any parameter.
func TestPlanID(t *testing.T) {
	a, b := sluice.PerMinute(5), sluice.PerHour(50)
	id := testkit.Compile(t, "login", a, b).ID
	if got := testkit.Compile(t, "login", a, b).ID; got != id {
		t.Errorf("compiled again: %x, want %x", got, id)
	}
	for name, other := range map[string]*sluice.Plan{
		"another scope": testkit.Compile(t, "api", a, b), "another order": testkit.Compile(t, "login", b, a),
		"fewer limits": testkit.Compile(t, "login", a), "another burst": testkit.Compile(t, "login", a.WithBurst(6), b),
	} {
		if other.ID == id {
			t.Errorf("%s: the same ID", name)
		}
	}
}

func TestQueues(t *testing.T) {
	for text, want := range map[string]bool{
		"5/min": false, "5/min burst 3": false, "5/min fixed-window": false,
		"5/min leaky-bucket": false, "5/min burst 3 leaky-bucket": true,
		"5/min burst 3 leaky-bucket delay-after 2": true, "5/min burst 3 leaky-bucket nodelay": false,
	} {
		l := sluice.MustParseLimit(text)
		if got := testkit.Compile(t, "s", l).Term(0).Queues; got != want {
			t.Errorf("%s: Term.Queues = %t, want %t", text, got, want)
		}
	}
}
