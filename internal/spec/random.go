// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/sluicegate/sluice"
)

// Random plays random steps on stores: sequences of all operations over limits of every form
// and windows from 1 µs to 366 days, with changes of version, several limits and several keys.
// It stops after a few different failures.
func Random(t *testing.T, open Open, steps int, seed uint64) {
	t.Helper()
	store := open(t)
	broken := make(map[string]int)
	now := int64(start)
	done, asked, worlds := 0, 0, 0
	for ; done < steps; worlds++ {
		rnd := rand.New(rand.NewPCG(seed, uint64(worlds))) //nolint:gosec // sequences must be repeatable
		w := drawWorld(rnd)
		c, err := w.compile(strconv.Itoa(worlds))
		if err != nil {
			continue // a draw that Validate refuses
		}
		if now > 2_600_000_000_000_000 || worlds%1000 == 999 { // its clock comes near its end, or it is full of old states
			store, now = open(t), start
		}
		j := newChecker(c, store, now, "k")
		f, seq := runRandom(rnd, j)
		if f == nil {
			f, seq = stepBack(rnd, j, seq)
		}
		done, asked = done+j.steps, asked+j.asked
		now = j.now + 3600_000_000
		if f == nil {
			continue
		}
		// The clock at which the world started is a part of the sequence.
		seq[0].Advance += j.began - start
		f.steps = seq
		name := fmt.Sprintf("%s, %s", w.Name, f.rule())
		if broken[name]++; broken[name] == 1 {
			report(t, w, open, f, fmt.Sprintf("seed %d, world %d", seed, worlds))
		}
		if len(broken) >= 12 {
			break
		}
	}
	t.Logf("seed %d: %d worlds, %d steps, %d requests", seed, worlds, done, asked)
	for name, n := range broken {
		t.Logf("%s: %d times", name, n)
	}
}

// latest is close to the end of a store's clock, in the year 2110.
const latest = 4_440_000_000_000_000

// perWorld is the number of steps in a world.
const perWorld = 120

func runRandom(rnd *rand.Rand, j *checker) (*failure, []Step) {
	d := newDrawer(rnd, j.world)
	seq := make([]Step, 0, perWorld+1)
	for i := range perWorld {
		s := d.step(j)
		s.ID = i + 1
		seq = append(seq, s)
		if _, err := j.do(&seq[i]); err != nil {
			return &failure{seq, err}, seq
		}
	}
	return nil, seq
}

// stepBack adds a last step, with a clock that steps back.
func stepBack(rnd *rand.Rand, j *checker, seq []Step) (*failure, []Step) {
	d := newDrawer(rnd, j.world)
	by := []int64{1, 1_000_000, 59 * 60_000_000, 61 * 60_000_000, 40 * 24 * 3600_000_000, 1 + d.advance(), 1 + 3*d.advance()}
	seq = append(seq, Step{Advance: -by[d.IntN(len(by))], Op: sluice.OpPeek, Plan: d.IntN(len(j.world.Plans)), Cost: 1, ID: perWorld + 1})
	if _, err := j.do(&seq[perWorld]); err != nil {
		return &failure{seq, err}, seq
	}
	return nil, seq
}

// drawer draws steps for a world.
type drawer struct {
	*rand.Rand
	world  *compiled
	unit   []int64 // times after which something happens: windows, parts, a unit
	most   int64   // cost
	even   bool    // all costs are 1
	ops    []sluice.Op
	steady int // one in steady steps changes the version
	plan   int
}

func newDrawer(rnd *rand.Rand, w *compiled) *drawer {
	d := &drawer{Rand: rnd, world: w, even: rnd.IntN(4) == 0, steady: 1 + rnd.IntN(20)}
	for _, terms := range w.terms {
		for _, v := range terms {
			if v.kind == blockKind {
				d.unit = append(d.unit, v.window, v.length)
				continue
			}
			d.unit = append(d.unit, v.window, v.sub, max(v.window/v.quota, 1))
			if v.creditFor > 0 {
				d.unit = append(d.unit, v.creditFor)
			}
			d.most = max(d.most, v.units()+v.debt+v.credit)
		}
	}
	d.ops = []sluice.Op{sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake}
	for _, op := range []sluice.Op{
		sluice.OpTake, sluice.OpPeek, sluice.OpTakeUpTo, sluice.OpCharge, sluice.OpReserve,
		sluice.OpRefund, sluice.OpRefund, sluice.OpRefund, sluice.OpAdd, sluice.OpConvert,
	} {
		if rnd.IntN(3) > 0 && !(w.taken && (op == sluice.OpAdd || op == sluice.OpConvert)) { // mixes differ
			d.ops = append(d.ops, op)
		}
	}
	if rnd.IntN(8) == 0 {
		d.ops = append(d.ops, sluice.OpReset)
	}
	return d
}

func (d *drawer) step(j *checker) Step {
	if d.IntN(d.steady) == 0 {
		d.plan = d.IntN(len(d.world.Plans))
	}
	s := Step{
		Advance: d.advance(), Op: d.ops[d.IntN(len(d.ops))], Plan: d.plan, Key: d.IntN(2), Cost: d.cost(),
		Asks: d.IntN(8) == 0, Outcomes: d.IntN(3) == 0,
	}
	if d.world.one {
		s.Key = 0
	}
	s.Advance = min(s.Advance, latest-j.now)
	switch s.Op {
	case sluice.OpReserve:
		s.Wait = min(d.advance()*3, sluice.MaxWait.Microseconds())
	case sluice.OpTakeUpTo:
		s.Cost = max(s.Cost, 1)
	case sluice.OpRefund:
		s.Give = Share(d.IntN(3))
		if s.Of = Newest; len(j.receipts) > 0 && d.IntN(2) == 0 {
			s.Of = j.receipts[d.IntN(len(j.receipts))].step
		}
	case sluice.OpAdd:
		if d.IntN(3) > 0 {
			s.Op = sluice.OpTake
		}
	case sluice.OpReset, sluice.OpConvert:
		if d.IntN(10) > 0 {
			s.Op = sluice.OpTake
		}
	case sluice.OpTake:
		if d.IntN(12) == 0 {
			s.Wait = min(d.advance(), sluice.MaxWait.Microseconds())
		}
	default: // no further fields
	}
	if s.Op != sluice.OpRefund && !d.world.one && d.IntN(5) == 0 {
		s.More = []Part{{d.IntN(len(d.world.Plans)), 1 - s.Key}}
	}
	return s
}

// cost returns a cost: mostly small, sometimes more than fits.
func (d *drawer) cost() int64 {
	if d.even {
		return 1
	}
	switch d.IntN(8) {
	case 0:
		return d.Int64N(2*d.most + 1)
	case 1, 2:
		return 1 + d.Int64N(d.most)
	case 3:
		return d.most
	case 4:
		return d.Int64N(2)
	default:
		return 1 + d.Int64N(1+d.most/4)
	}
}

// advance returns a step of the clock: often 0, often about the time in which something
// changes.
func (d *drawer) advance() int64 {
	u := d.unit[d.IntN(len(d.unit))]
	switch d.IntN(10) {
	case 0, 1, 2:
		return 0
	case 3:
		return 1
	case 4:
		return u
	case 5:
		return max(u-1, 0)
	case 6:
		return u / 2
	default:
		return d.Int64N(u + 1)
	}
}
