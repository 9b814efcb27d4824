// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sketch estimates the number of different recent keys in little memory.
package sketch

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/axiomhq/hyperloglog"
)

// Sum holds the keys of a span, of one process or of several with the same secret of hashes.
// It is not safe for concurrent use.
type Sum struct {
	*part
	half  time.Duration // half of the span
	since time.Time
}

// Count holds the numbers of keys since a moment. A key counts once for each level. The
// numbers are estimates.
type Count struct {
	Since  time.Time `json:"since"`
	Seen   int64     `json:"seen"`
	Denied int64     `json:"denied"`
	Near   int64     `json:"near"`          // that had less than a fifth of a limit left
	Peak   float64   `json:"peak"`          // the greatest share of a limit that one has used, 0 to 1
	Error  float64   `json:"error_percent"` // 19 of 20 numbers are off by less
}

// Count returns the numbers of keys.
func (s *Sum) Count() Count {
	c := Count{Since: s.since, Peak: float64(s.peak.Load()) / 1000, Error: math.Round(1960*1.04/math.Sqrt(float64(int(1)<<s.precision))) / 10}
	for i, into := range [kinds]*int64{&c.Seen, &c.Denied, &c.Near} {
		*into = s.of[i].estimate()
	}
	return c
}

// Clone returns a copy of s.
func (s *Sum) Clone() *Sum {
	c := &Sum{half: s.half, since: s.since, part: newPart(s.precision, s.number)}
	c.merge(s.part)
	return c
}

// Merge adds the keys of another Sum, and reports false if the two have other spans or times
// further apart than clocks may be. A key in both counts once, as if one Sum had counted all.
// The result has the lower of the two precisions.
func (s *Sum) Merge(o *Sum) bool {
	if s.half != o.half || max(s.number, o.number)-min(s.number, o.number) > 1 {
		return false
	}
	if s.precision > o.precision {
		s.part = s.coarser()
	}
	from := o.part
	if o.precision > s.precision {
		from = o.coarser()
	}
	s.merge(from)
	s.number = max(s.number, o.number)
	if o.since.Before(s.since) {
		s.since = o.since
	}
	return true
}

// coarser returns p with registers of [Coarse].
func (p *part) coarser() *part {
	c := newPart(Coarse, p.number)
	c.reach(p.peak.Load())
	for i := range p.of {
		registers := newSketch(p.precision, false)
		must(registers.Merge(p.of[i].sketch))
		data, err := registers.MarshalBinary()
		must(err)
		folded := fold(data[header:], p.precision-Coarse)
		must(registers.UnmarshalBinary(dense(Coarse, folded)))
		c.of[i] = distinct{sketch: registers}
	}
	return c
}

// fold returns the registers that the same hashes make with by fewer bits for the index: these
// bits then precede those whose zeros are counted.
func fold(registers []byte, by int) []byte {
	folded := make([]byte, len(registers)>>by)
	for i, r := range registers {
		if r == 0 {
			continue
		}
		zeros := by
		for low := i & (1<<by - 1); low > 0; low >>= 1 {
			zeros--
		}
		if zeros < by {
			r = byte(zeros + 1)
		} else {
			r += byte(by)
		}
		folded[i>>by] = max(folded[i>>by], r)
	}
	return folded
}

// header is the size of the library's header before the registers, in bytes.
const header = 8

// dense returns registers in the library's form.
func dense(precision int, registers []byte) []byte {
	n := len(registers)
	return append([]byte{2, byte(precision), 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, registers...)
}

// firstRegister is the character for a register of 0. The characters up to the largest
// register, 64 - [Coarse] + 1 above it, are printable and need no escape in JSON. The text of
// a list of hashes begins with listMark, which is no register's character.
const (
	firstRegister = '#'
	listMark      = 'l'
	mostText      = 4096 // of a list
)

// sumText is the JSON form of a Sum. A kind without keys is left out.
type sumText struct {
	Half      int64  `json:"half"` // seconds
	Number    int64  `json:"number"`
	Since     int64  `json:"since"` // seconds since 1970
	Precision int    `json:"precision"`
	Peak      uint32 `json:"peak,omitempty"`
	Seen      string `json:"seen,omitempty"`
	Denied    string `json:"denied,omitempty"`
	Near      string `json:"near,omitempty"`
}

func (t *sumText) kinds() [kinds]*string { return [kinds]*string{&t.Seen, &t.Denied, &t.Near} }

// MarshalJSON writes the keys' hashes, so that other processes can merge them. A register is
// one character, which compresses to three bits.
func (s *Sum) MarshalJSON() ([]byte, error) {
	t := sumText{
		Half: int64(s.half / time.Second), Number: s.number, Since: s.since.Unix(), Precision: s.precision, Peak: s.peak.Load(),
	}
	for i, into := range t.kinds() {
		d := &s.of[i]
		if d.estimate() == 0 {
			continue
		}
		data, err := d.sketch.MarshalBinary()
		if err != nil {
			return nil, err
		}
		if d.look > 0 {
			*into = string(listMark) + base64.StdEncoding.EncodeToString(data)
			continue
		}
		registers := data[header:]
		for i := range registers {
			registers[i] += firstRegister
		}
		*into = string(registers)
	}
	return json.Marshal(t)
}

var errSum = errors.New("sketch: invalid keys")

// UnmarshalJSON reads the output of MarshalJSON from any source: invalid data is an error.
func (s *Sum) UnmarshalJSON(data []byte) error {
	var t sumText
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	half := time.Duration(t.Half) * time.Second
	if half != HourHalf && half != DayHalf || t.Precision != Fine && t.Precision != Coarse || t.Peak > 1000 || t.Number < 0 || t.Since < 0 || t.Since > 1<<40 {
		return errSum
	}
	*s = Sum{half: half, since: time.Unix(t.Since, 0).UTC(), part: newPart(t.Precision, t.Number)}
	s.peak.Store(t.Peak)
	for i, text := range t.kinds() {
		if *text == "" {
			continue
		}
		var err error
		if s.of[i], err = distinctOf(t.Precision, *text); err != nil {
			return fmt.Errorf("sketch: %w", err)
		}
	}
	return nil
}

// distinctOf reads the keys of one kind.
func distinctOf(precision int, text string) (d distinct, err error) {
	if text[0] != listMark {
		registers := []byte(text)
		for i := range registers {
			registers[i] -= firstRegister // a smaller character wraps to far above any register
		}
		d.sketch = new(hyperloglog.Sketch)
		return d, d.sketch.UnmarshalBinary(dense(precision, registers))
	}
	if len(text) > mostText {
		return d, errSum
	}
	data, err := base64.StdEncoding.DecodeString(text[1:])
	if err != nil {
		return d, err
	}
	if len(data) < header || data[1] != byte(precision) || data[3] != 1 {
		return d, errSum
	}
	d = distinct{sketch: new(hyperloglog.Sketch), look: 1}
	if err := d.sketch.UnmarshalBinary(data); err != nil {
		return d, err
	}
	d.settle(precision)
	return d, nil
}

// distinct counts different hashes: exactly as a list while they are few, then as a
// HyperLogLog of 2^precision registers of a byte. It is not safe for concurrent use.
type distinct struct {
	sketch *hyperloglog.Sketch
	look   int // hashes until the next check of the list's length; 0: no list any more
}

func newDistinct(precision int) distinct {
	return distinct{sketch: newSketch(precision, true), look: few(precision)}
}

// few is the longest list of hashes. A longer one would soon take more memory than registers.
func few(precision int) int { return 1 << precision / 8 }

func newSketch(precision int, sparse bool) *hyperloglog.Sketch {
	s, err := hyperloglog.NewSketch(uint8(precision), sparse)
	must(err)
	return s
}

// must panics for errors that cannot occur: precisions are [Fine] or [Coarse], and merged
// sketches have the same one.
func must(err error) {
	if err != nil {
		panic("sketch: " + err.Error()) //nolint:forbidigo // see above
	}
}

// add counts a hash.
func (d *distinct) add(precision int, hash uint64) {
	d.sketch.InsertHash(hash)
	if d.look == 0 {
		return
	}
	if d.look--; d.look == 0 {
		d.settle(precision)
	}
}

// settle replaces a list that has grown too long by registers.
func (d *distinct) settle(precision int) {
	if d.look = few(precision) - int(d.estimate()); d.look > 0 {
		return
	}
	registers := newSketch(precision, false)
	must(registers.Merge(d.sketch))
	*d = distinct{sketch: registers}
}

// merge adds the hashes of another.
func (d *distinct) merge(precision int, o *distinct) {
	must(d.sketch.Merge(o.sketch))
	if d.look == 0 {
		return
	}
	if d.settle(precision); d.look > 0 {
		d.sketch = d.sketch.Clone() // frees the memory used for merging
	}
}

// estimate returns the approximate number of different hashes.
func (d *distinct) estimate() int64 {
	const most = 1 << 53 // with all registers at their maximum
	return int64(min(d.sketch.Estimate(), most))
}

// bytes returns the approximate memory of d.
func (d *distinct) bytes(precision int) int {
	if d.look == 0 {
		return 1<<precision + 64
	}
	return 150 + 4*(few(precision)-d.look)
}
