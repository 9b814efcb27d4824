// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import "sync/atomic"

// Pace slows bytes down. It is safe for concurrent use.
type Pace struct {
	Chunk int               // most bytes at once
	Take  func(n int) error // blocks until n bytes, at most Chunk, may pass
}

// beside returns a Pace that waits for both.
func (p *Pace) beside(other *Pace) *Pace {
	if p == nil {
		return other
	}
	if other == nil {
		return p
	}
	return &Pace{Chunk: min(p.Chunk, other.Chunk), Take: func(n int) error {
		if err := p.Take(n); err != nil {
			return err
		}
		return other.Take(n)
	}}
}

// write writes all of b in chunks, each when p admits it. A nil Pace does not slow down.
func (p *Pace) write(b []byte, write func([]byte) (int, error)) (n int, err error) {
	if p == nil {
		return write(b)
	}
	for len(b) > 0 {
		part := b[:min(len(b), p.Chunk)]
		if err := p.Take(len(part)); err != nil {
			return n, err
		}
		m, err := write(part)
		n += m
		if err != nil {
			return n, err
		}
		b = b[m:]
	}
	return n, nil
}

// read reads and counts bytes, and returns when p admits them. A nil Pace does not slow down.
func (p *Pace) read(b []byte, count *atomic.Int64, read func([]byte) (int, error)) (int, error) {
	if p != nil {
		b = b[:min(len(b), p.Chunk)]
	}
	n, err := read(b)
	count.Add(int64(n))
	if p != nil && n > 0 {
		if slow := p.Take(n); slow != nil && err == nil {
			err = slow
		}
	}
	return n, err
}
