// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/logentry"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// firstFormat is what nodes that know no other format wrote, for takes of 2 and of
// 1 a second later at epoch, and what they said of it to a peek a second after the
// last take.
var firstFormat = []struct {
	limit, key, value string
	remaining, reset  int64
}{
	{"x: 100/min", "sluice{1s0/k}x", "060064808ece1c065bfeda4339800000", 100, 0},
	{"x: 7/min burst 3", "sluice{1s1/k}x", "072007808ece1c03065bfedbb020ae0005", 0, 23714286},
	{"x: 65537/min burst 50 debt 5", "sluice{1s2/k}x", "0a30818004808ece1c0532065bfeda3708140000000000836d", 50, 0},
	{"x: 10/s initial 2", "sluice{1s3/k}x", "06800ac0843d08065bfeda47cd600000", 10, 0},
	{"x: 10/s burst 20 interval-refill", "sluice{1s4/k}x", "06600ac0843d14065bfeda4646c000000000000001", 20, 0},
	{"x: 10/s burst 20 interval-refill initial 5", "sluice{1s5/k}x", "07e00ac0843d140f065bfeda55890000000000000008", 20, 0},
	{"x: 50/min leaky-bucket burst 9 delay-after 4", "sluice{1s6/k}x", "086132808ece1c0904065bfeda5eb0c00000", 7, 1600000},
	{"x: 50/min leaky-bucket burst 5", "sluice{1s7/k}x", "072132808ece1c05065bfeda5eb0c00000", 3, 1600000},
	{"x: 10/min fixed-window", "sluice{1s8/k}x", "06020a808ece1c065bfedc883a000000000000000003", 7, 37876544},
	{"x: 10/min fixed-window anchor first debt 2", "sluice{1s9/k}x", "07520a808ece1c02065bfeddbb49400000000000000003", 7, 58000000},
	{"x: 50/week calendar Europe/Berlin week-starts monday", "sluice{1s10/k}x", "108232114575726f70652f4265726c696e065c7e122038000000000000000003", 47, 546397876544},
	{"x: 20/min sliding-counter conservative", "sluice{1s11/k}x", "074414808ece1c01065bfee01bc100000000000000000300000000000000", 17, 97876544},
	{"x: 20/min sliding-counter conservative pre-filled", "sluice{1s12/k}x", "07c414808ece1c01065bfee01bc100000000000000001400000000000000", 0, 37876544},
	{"x: 30/min sliding-counter conservative sub-windows 5", "sluice{1s13/k}x", "07441e808ece1c05065bfeddf6700000000000000000030000000000000000000000000000000000000000000000000000000000000000000000", 27, 61876544},
	{"x: 12/min sliding-log", "sluice{1s14/k}x", "06030c808ece1c065bfeddca8b8000000000000000030000000000000000000000000000020000000465bfeda27c24000465bfeda37048000200000000000000000000000000000000", 9, 59000000},
	{"x: 12/min sliding-log count-denied", "sluice{1s15/k}x", "06430c808ece1c065bfeddd9cdc0000000000000000c0000000000000000000001000000020000000465bfeda27c24000465bfeda37048000265bfeda4646c00160000000000000000", 0, 59000000},
	{"x: 300/min sliding-histogram precision 3", "sluice{1s16/k}x", "0805ac02808ece1c03065bfeddca8b8000000000000000030000000000000000000000000000020000000465bfeda27c24000465bfeda37048000200000000000000000000000000000000", 297, 59000000},
}

// TestFirstFormatIsRead: what nodes of the first format wrote means the same, and
// what they can say as well is written byte for byte as they do, so that nodes of
// both share budgets.
func TestFirstFormatIsRead(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, "")
	for _, c := range firstFormat {
		t.Run(c.limit, func(t *testing.T) {
			raw, err := hex.DecodeString(c.value)
			if err != nil {
				t.Fatal(err)
			}
			scope, _, _ := strings.Cut(strings.TrimPrefix(c.key, "sluice{1"), "/")
			p := testkit.Plan(t, scope, c.limit)
			if err := client.Do(t.Context(), client.B().Set().Key(c.key).Value(string(raw)).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			start := s.keyer.start(scope, "x") // the rule is an old one
			if err := client.Do(t.Context(), client.B().Set().Key(start).Value("1").Build()).Error(); err != nil {
				t.Fatal(err)
			}
			s.Set(epoch + 2_000_000)
			if p.Term(0).CountDenied {
				s.Set(epoch + 3_000_000)
			}
			req := testkit.Request(p, "k", 1)
			req.Op = sluice.OpPeek
			for range 2 {
				if d := testkit.Take(t, s.Store, req); d.Remaining != c.remaining || d.ResetAfter.Microseconds() != c.reset {
					t.Errorf("got %+v, want %d remaining and a reset in %d µs", d, c.remaining, c.reset)
				}
			}
			it := &s.newCall(&req).items[0]
			list, err := s.parseValue(it, string(raw))
			if err != nil {
				t.Fatal(err)
			}
			if list[0].By != it.term {
				t.Errorf("%v wrote it, want the limit itself", list[0].By.Limit)
			}
			if kindOf(it.term) == kindLog {
				return // of a ring the room differs
			}
			if got := formatValue(list); got != string(raw) {
				t.Errorf("written again it is %x, want %s", got, c.value)
			}
		})
	}
}

// TestLimitsOfTooMuchDebtAreRead: states of limits whose quota and debt are more
// than there may be today still count, the debt as far as there may be one.
func TestLimitsOfTooMuchDebtAreRead(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, "")
	s.Set(epoch)
	for _, was := range []sluice.Limit{
		{Algorithm: sluice.FixedWindow, Quota: sluice.MaxQuota, Window: time.Hour, Debt: sluice.MaxQuota},
		{Algorithm: sluice.FixedWindow, Quota: 1000, Window: time.Hour, Debt: sluice.MaxQuota},
	} {
		for _, counted := range []int64{100, sluice.MaxQuota, 2 * sluice.MaxQuota} {
			now := was
			now.Debt = 0
			old := sluice.Term{Limit: was.Filled()}
			start := int64(epoch) / time.Hour.Microseconds() * time.Hour.Microseconds()
			raw := formatOne(&old, &algo.State{Idle: start + time.Hour.Microseconds(), A: counted})
			p := testkit.Compile(t, "s", now)
			req := testkit.Request(p, "k", 1)
			set := client.B().Set().Key(s.newCall(&req).items[0].key).Value(raw).Build()
			if err := client.Do(t.Context(), set).Error(); err != nil {
				t.Fatal(err)
			}
			req.Op = sluice.OpPeek
			if d, want := testkit.Take(t, s.Store, req), max(now.Quota-counted, 0); d.Remaining != want || d.Allowed != (want > 0) {
				t.Errorf("%v after %d units: %+v, want %d left", was, counted, d, want)
			}
		}
	}
}

// TestOldNodesRefuseOtherFormats: nodes of the first format take no other one for
// theirs.
func TestOldNodesRefuseOtherFormats(t *testing.T) {
	p := testkit.Plan(t, "s", "x: 10/min")
	log, denials := testkit.Plan(t, "s", "x: 20/min sliding-log"), testkit.Plan(t, "s", "x: 20/min sliding-log count-denied")
	one := algo.State{Idle: epoch, By: p.Term(0), Since: epoch - 1, Last: epoch - 1}
	other := algo.State{Idle: epoch, By: log.Term(0), A: 2, Len: 1, Ring: logentry.Whole.Append(nil, epoch-1, 2, false)}
	refused := algo.State{Idle: epoch, By: log.Term(0), A: 2, Len: 2, Ring: logentry.Whole.Append(nil, epoch-1, 2, true)}
	counted := other
	counted.By = denials.Term(0)
	for name, list := range map[string][]algo.State{
		"extended": {one}, "several": {one, other}, "denials": {refused}, "counts denials": {counted},
	} {
		raw := formatValue(list)
		for range 20 { // however long they are
			if _, _, err := parseHead("x", raw); err == nil {
				t.Fatalf("%s: an old node reads %x", name, raw)
			}
			raw += raw
			if len(raw) > 4096 {
				break
			}
		}
	}
	if raw := formatValue([]algo.State{other}); strings.HasPrefix(raw, extended) {
		t.Errorf("a log without denials is %x, want the first format", raw)
	}
}

// TestOldNodesRefuseCredit: a head with credit has an option that nodes from before
// there was credit do not know, and one without is as it was.
func TestOldNodesRefuseCredit(t *testing.T) {
	const known = optionNextWaits | optionAligned | optionBlock
	with := testkit.Plan(t, "s", "x: 10/min burst 7 credit 5 credit-for 1h").Term(0)
	without := testkit.Plan(t, "s", "x: 10/min burst 7").Term(0)
	if head := appendHead(nil, &with.Limit); head[1]&headAlgorithm != headOptions || optionsOf(&with.Limit)&^known == 0 {
		t.Errorf("%x: want an option that is not known", head)
	}
	if got, want := len(formatValue([]algo.State{{Idle: epoch, A: 3, By: without}})), len(appendHead(nil, &without.Limit))+7+2; got != want {
		t.Errorf("without credit: %d bytes, want %d as before", got, want)
	}
	given := algo.State{Idle: epoch, B: -5, Since: epoch - 1, Last: epoch - 1, By: with}
	raw := formatValue([]algo.State{given})
	body, mark, err := cutFormat(raw)
	if err != nil || mark != extended {
		t.Fatalf("%x: %x, %v", raw, mark, err)
	}
	by, size, err := parseHead("x", body)
	if err != nil || by.Credit != 5 || by.CreditFor != time.Hour {
		t.Fatalf("%x: %+v, %v", raw, by, err)
	}
	if got, err := parseMarked(by, body[size:], mark); err != nil || got.B != -5 || got.Idle != epoch || got.Since != epoch-1 {
		t.Errorf("%x: %+v, %v", raw, got, err)
	}
}

// TestUnknownFormatsAreRefused: a value of a later format is no state, and the
// error says what to do.
func TestUnknownFormatsAreRefused(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	s := clocked(t, server, "")
	s.Set(epoch)
	for i, text := range []string{
		"x: 100/min", "x: 10/s burst 20 interval-refill", "x: 10/min fixed-window", "x: 20/min sliding-counter", "x: 12/min sliding-log", "x: 300/min sliding-histogram",
	} {
		req := testkit.Request(testkit.Plan(t, "s", text), "k", 1)
		req.Outcomes = new(make(sluice.Outcomes, 1))
		key := s.newCall(&req).items[0].key
		set := client.B().Set().Key(key).Value("\xff\x1f" + strings.Repeat("what is to come ", 100*i)).Build()
		if err := client.Do(t.Context(), set).Error(); err != nil {
			t.Fatal(err)
		}
		for _, op := range []sluice.Op{sluice.OpTake, sluice.OpPeek, sluice.OpCharge} {
			req.Op = op
			_, err := s.Take(t.Context(), req)
			if want := "the state has format 3, this program knows up to 2: upgrade it"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v: got error %v, want %q", text, op, err, want)
			}
		}
	}
}
