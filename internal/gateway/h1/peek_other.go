// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package h1

import "net"

// Supported reports whether connections can be kept on this system: whether it can be
// seen without waiting that nothing has come on one.
const Supported = false

type peek struct{}

func newPeek(net.Conn) *peek { return nil }

func (p *peek) quiet() bool { return false }

func (p *peek) came() []byte { return nil }
