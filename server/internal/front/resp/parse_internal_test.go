// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"testing"
)

// FuzzParse: parse never reads behind the bytes, accepts what it is given in pieces as it
// accepts the whole, and keeps its bounds.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nu\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n", "PING\r\n", "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
		"*0\r\n", "*-1\r\n", "\r\n", "\n", "*1\r\n$-1\r\n", "*1\r\n$0\r\n\r\n", "*1000000\r\n", "$5\r\nhello\r\n", "*1\r\n$4\r\nPI", "*2\r\n$4\r\n", "*", "*1", "*1\r", "*1\n",
		"POST / HTTP/1.1\r\n", "*1\r\n$16385\r\n", "*1\r\n$000004\r\nPING\r\n", "a b  c\td\r\n", "*1\r\n$4\r\nPING\n\n", "*3\r\n$1\r\n\x00\r\n$2\r\n\xff\r\r\n$0\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		args, n, err := parse(b, nil)
		if n < 0 || n > len(b) || len(args) > mostArgs+1 || err != nil && n != 0 {
			t.Fatalf("%d of %d bytes, %d arguments, %v", n, len(b), len(args), err)
		}
		if n == 0 && err == nil && len(b) > mostCommand {
			t.Fatalf("%d bytes are no whole command", len(b))
		}
		if n == 0 {
			return
		}
		for _, arg := range args {
			if len(arg) > mostArg {
				t.Fatalf("an argument of %d bytes", len(arg))
			}
		}
		for i := range n { // no part of it is a command, or a fault
			if _, m, err := parse(b[:i], nil); m != 0 || err != nil {
				t.Fatalf("the first %d of %d bytes: %d, %v", i, n, m, err)
			}
		}
		again, m, err := parse(append(bytes.Clone(b[:n]), "PING\r\n"...), nil)
		if m != n || err != nil || len(again) != len(args) {
			t.Fatalf("followed by another: %d of %d bytes, %v", m, n, err)
		}
	})
}
