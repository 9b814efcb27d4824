// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// answerLimit is far above what an answer takes, even on a busy machine: a
// test that would hang fails.
const answerLimit = time.Minute

// leanClient speaks HTTP/1.1 on one kept connection, a request at a time. It
// reads of an answer no more than its status and where it ends: the client of
// net/http would take as long for it as the gateway that is tested. It is not
// safe for concurrent use.
type leanClient struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// dial returns n clients of one server, closed when the test is over.
func dial(t *testing.T, addr string, n int) []*leanClient {
	t.Helper()
	clients := make([]*leanClient, n)
	for i := range clients {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, conn)
		clients[i] = &leanClient{conn: conn, in: bufio.NewReader(conn)}
	}
	return clients
}

// get asks for a path and reads the answer to its end, which must come within
// answerLimit.
func (c *leanClient) get(path string) (status int, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, err
	}
	c.out = append(c.out[:0], "GET "...)
	c.out = append(c.out, path...)
	c.out = append(c.out, " HTTP/1.1\r\nHost: sluice.test\r\n\r\n"...)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	status, length, err := readHead(c.in)
	if err != nil {
		return 0, err
	}
	_, err = c.in.Discard(length)
	return status, err
}

// readHead reads an answer up to its body, whose length it returns.
func readHead(in *bufio.Reader) (status, length int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	proto, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if status, err = strconv.Atoi(string(code)); err != nil || string(proto) != "HTTP/1.1" {
		return 0, 0, fmt.Errorf("status line %q", line)
	}
	length = -1
	if status == http.StatusNoContent {
		length = 0
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, 0, fmt.Errorf("header line %q", line)
			}
		case bytes.EqualFold(name, []byte("Connection")):
			return 0, 0, fmt.Errorf("header line %q: the connection is not kept", line)
		}
	}
	if length < 0 {
		return 0, 0, errors.New("an answer without Content-Length")
	}
	return status, length, nil
}
