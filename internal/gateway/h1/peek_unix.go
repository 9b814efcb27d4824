// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// Supported reports whether connections can be kept on this system: whether it can be
// seen without waiting that nothing has come on one.
const Supported = true

// peek looks whether something has come on a connection.
type peek struct {
	raw  syscall.RawConn
	look func(fd uintptr) bool
	b    [most]byte
	n    int
	err  error
}

// newPeek returns nil for a connection that is not the system's, and for one of TLS, which
// reads ahead.
func newPeek(c net.Conn) *peek {
	for {
		if _, ok := c.(*tls.Conn); ok {
			return nil
		}
		if sys, ok := c.(syscall.Conn); ok {
			raw, err := sys.SyscallConn()
			if err != nil {
				return nil
			}
			p := &peek{raw: raw}
			p.look = p.read
			return p
		}
		below, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = below.NetConn()
	}
}

func (p *peek) read(fd uintptr) bool {
	for {
		if p.n, p.err = syscall.Read(int(fd), p.b[:]); !errors.Is(p.err, syscall.EINTR) {
			return true
		}
	}
}

// quiet reports whether nothing has come. Bytes that have are lost, and with them the
// connection.
func (p *peek) quiet() bool {
	p.n, p.err = 0, nil
	err := p.raw.Read(p.look)
	return err == nil && errors.Is(p.err, syscall.EAGAIN)
}

// came returns the first bytes of what has come, if it was not quiet.
func (p *peek) came() []byte { return p.b[:max(p.n, 0)] }
