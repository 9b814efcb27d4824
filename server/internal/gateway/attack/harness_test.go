// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// patience bounds the wait for events that must happen.
const patience = testkit.Ceiling

// addresses counts the addresses given to clients.
var addresses atomic.Uint32

// address returns an address that no other client has.
func address() string {
	n := addresses.Add(1)
	return fmt.Sprintf("203.%d.%d.%d", n>>16, n>>8&255, n&255)
}

// client has an address stated in a PROXY protocol header: the listeners under attack are
// behind a proxy.
type client struct {
	*gate
	from string
}

func (g *gate) client(from string) client { return client{g, from} }

// dial connects to the first listener.
func (c client) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // usually closed by then
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	family, to := "TCP4", "192.0.2.1"
	if strings.Contains(c.from, ":") {
		family, to = "TCP6", "2001:db8::1"
	}
	c.write(t, conn, fmt.Sprintf("PROXY %s %s %s 4711 80\r\n", family, c.from, to))
	return conn
}

// write sends bytes. The gateway may have hung up.
func (c client) write(t *testing.T, conn net.Conn, raw string) {
	t.Helper()
	if _, err := io.WriteString(conn, raw); err != nil && os.IsTimeout(err) {
		t.Errorf("writing: %v", err)
	}
}

// reply is an answer of the gateway.
type reply struct {
	status int
	header http.Header
	body   string
}

// send writes bytes on a new connection and returns all answers until the gateway hangs up.
func (c client) send(t *testing.T, raw string) (replies []reply) {
	t.Helper()
	conn := c.dial(t)
	c.write(t, conn, raw)
	in := bufio.NewReader(conn)
	for {
		r, err := readReply(in)
		if os.IsTimeout(err) {
			t.Errorf("no answer, and the connection stays open, after %q", raw)
		}
		if err != nil {
			_ = conn.Close() // the other side has
			return replies
		}
		if r.status >= 200 || r.status == http.StatusSwitchingProtocols {
			replies = append(replies, r)
		}
	}
}

func readReply(in *bufio.Reader) (reply, error) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return reply{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	return reply{resp.StatusCode, resp.Header, string(body)}, err
}

// statuses returns the statuses of replies.
func statuses(replies []reply) (all []int) {
	for i := range replies {
		all = append(all, replies[i].status)
	}
	return all
}

// get sends one request with these field lines, and returns the answer, with status 0 if there
// was none.
func (c client) get(t *testing.T, row, target string, fields ...string) reply {
	t.Helper()
	raw := "GET " + target + " HTTP/1.1\r\nHost: app.example\r\nX-Row: " + row + "\r\n"
	for _, f := range fields {
		raw += f + "\r\n"
	}
	replies := c.send(t, raw+"Connection: close\r\n\r\n")
	if len(replies) == 0 {
		return reply{}
	}
	return replies[0]
}

// own returns a client's remaining units of a limit, by the gateway's own answer.
func (c client) own(t *testing.T, name string) int {
	t.Helper()
	r := c.get(t, "own", "/.well-known/ratelimit")
	var doc struct {
		Limits []struct {
			Name      string
			Remaining int
		}
	}
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil {
		t.Fatalf("%d %q: %v", r.status, r.body, err)
	}
	for _, l := range doc.Limits {
		if l.Name == name {
			return l.Remaining
		}
	}
	t.Fatalf("no limit %s in %s", name, r.body)
	return 0
}

// rss returns the process's peak of memory, in MiB, or 0 where the system does not report it.
func (g *gate) rss(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if after, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(after), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n >> 10
		}
	}
	return 0
}

// number names the i-th row for the upstream.
func number(table string, i int) string { return table + strconv.Itoa(i) }
