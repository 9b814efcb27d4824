// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a command, in bytes and arguments.
const (
	mostArgs    = 64
	mostArg     = 16 << 10
	mostCommand = 64 << 10
)

// errHTTP is about a web page that makes a browser send commands in the body of a request.
var errHTTP = errors.New("this is HTTP, which this listener does not speak; use the address of an HTTP listener")

// parse appends the arguments of the first command in b to args, and returns its length with its
// line ends. The length is 0 if the command is not complete. There are no arguments if the
// command is empty. The arguments are parts of b. After an error nothing more can be read.
func parse(b []byte, args [][]byte) (_ [][]byte, n int, err error) {
	if len(b) == 0 {
		return args, 0, nil
	}
	if b[0] != '*' {
		return parseInline(b, args)
	}
	count, n, err := length(b, "multibulk", mostArgs)
	if n == 0 || err != nil {
		return args, 0, err
	}
	for range count {
		switch {
		case n == len(b):
			return args, 0, whole(b)
		case b[n] != '$':
			return args, 0, fmt.Errorf("expected '$', got %q", b[n])
		}
		size, head, err := length(b[n:], "bulk", mostArg)
		switch n += head; {
		case err != nil:
			return args, 0, err
		case size < 0:
			return args, 0, errors.New("invalid bulk length")
		case head == 0 || len(b) < n+size+2:
			return args, 0, whole(b)
		case b[n+size] != '\r' || b[n+size+1] != '\n':
			return args, 0, errors.New("invalid bulk length: no line end behind that many bytes")
		}
		args = append(args, b[n:n+size])
		n += size + 2
	}
	return args, n, nil
}

// whole returns an error if b is longer than a command may be.
func whole(b []byte) error {
	if len(b) >= mostCommand {
		return fmt.Errorf("too big command: more than %d bytes", mostCommand)
	}
	return nil
}

// length reads a line of a byte and a number, and returns the length of the line, 0 if it is not
// complete.
func length(b []byte, what string, most int) (v, n int, err error) {
	const digits = 7 // more than any bound has
	end := bytes.IndexByte(b[:min(len(b), digits+3)], '\n')
	switch {
	case end < 0 && len(b) < digits+3:
		return 0, 0, nil
	case end < 3 || b[end-1] != '\r':
		return 0, 0, fmt.Errorf("invalid %s length", what)
	case string(b[1:end-1]) == "-1":
		return -1, end + 1, nil
	}
	for _, c := range b[1 : end-1] {
		if c < '0' || c > '9' {
			return 0, 0, fmt.Errorf("invalid %s length", what)
		}
		v = v*10 + int(c-'0')
	}
	if v > most {
		return 0, 0, fmt.Errorf("invalid %s length: %d is more than %d", what, v, most)
	}
	return v, end + 1, nil
}

// parseInline reads a command that is one line of words.
func parseInline(b []byte, args [][]byte) (_ [][]byte, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) >= mostArg {
			return args, 0, errors.New("too big inline request")
		}
		return args, 0, nil
	}
	for word := range bytes.FieldsSeq(b[:min(end, mostArg)]) {
		if args = append(args, word); len(args) > mostArgs {
			break
		}
	}
	switch {
	case len(args) > mostArgs || end > mostArg:
		return args, 0, errors.New("too big inline request")
	case len(args) > 0 && (strings.EqualFold(string(args[0]), "POST") || strings.EqualFold(string(args[0]), "Host:")):
		return args, 0, errHTTP
	}
	return args, end + 1, nil
}
