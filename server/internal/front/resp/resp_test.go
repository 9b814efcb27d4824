// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/resp"
)

// served is a front with its clock and what it has recorded.
type served struct {
	front.Front
	resp.RESP
	*testkit.Pipes
	clock *testkit.Clock
	store *testkit.Store

	mu      sync.Mutex
	records []front.Record
}

const rules = `
rules:
  - {name: user, by: header.X-User, limits: 10/min sliding-log}
  - {name: two, by: [header.X-User, query.key], limits: 10/min sliding-log}
  - {name: all, limits: 3/min sliding-log}
  - {name: net, match: {path: /x}, by: ip/24/48, limits: 3/min sliding-log, exempt: {networks: 192.0.2.0/24}}
  - {name: path, match: {path: "/users/{id}"}, by: path.id, limits: 3/min sliding-log, cost: 2}
  - name: special
    by: [ip/24/48, header.X-User]
    limits: 3/min sliding-log
    exempt: {keys: [[192.0.2.0/24, probe]]}
    overrides: [{key: [192.0.2.0/24, ada], limits: 9/min sliding-log, reason: x, author: y}]
  - {name: entry, match: {descriptor: {user: "*"}}, by: descriptor.user, limits: 10/min sliding-log}
  - {name: first, by: {first: [header.X-User, ip]}, limits: 3/min sliding-log}
  - name: tree
    levels:
      - {name: org, by: header.X-Org, limits: 4/min sliding-log}
      - {name: user, by: [header.X-Org, header.X-User], limits: 2/min sliding-log}
  - {name: queue, by: header.X-User, limits: 1/s leaky-bucket burst 2}
  - {name: soft, by: header.X-User, limits: soft 1/min sliding-log grace 1/min sliding-log}
  - {name: dry, by: header.X-User, mode: shadow, limits: 1/min sliding-log}
  - {name: closed, by: header.X-User, failure: closed, limits: 1/min sliding-log}
`

// start serves a configuration's rules, and tokens unless nil.
func start(t *testing.T, yaml string, tokens resp.Tokens) *served {
	t.Helper()
	c, err := config.Parse("sluice.yaml", []byte(listen(tokens != nil)+yaml))
	if err != nil {
		t.Fatal(err)
	}
	s := &served{Pipes: testkit.NewPipes(), clock: testkit.NewClock()}
	s.store = &testkit.Store{Store: memstore.New(memstore.Options{Now: s.clock.Now})}
	if tokens != nil {
		s.Tokens = tokensOf(tokens)
	}
	if s.Front, err = s.Kind().New(&c.Listen[0]); err != nil {
		t.Fatal(err)
	}
	s.use(t, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(s.Pipes) }()
	t.Cleanup(func() {
		if err := s.Front.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

func tokensOf(tokens resp.Tokens) func(string, *policy.Policy) (resp.Tokens, error) {
	return func(string, *policy.Policy) (resp.Tokens, error) { return tokens, nil }
}

// listen returns the listener of a configuration.
func listen(tokens bool) string {
	if tokens {
		return "listen: {address: \"127.0.0.1:0\", serve: resp, tokens_file: tokens.json}\n"
	}
	return "listen: {address: \"127.0.0.1:0\", serve: resp}\n"
}

// use activates a configuration.
func (s *served) use(t *testing.T, c *config.Config) {
	t.Helper()
	use, err := s.Prepare(&front.Snapshot{
		Config: c, Listener: &c.Listen[0], Policy: c.PolicyOf(&c.Listen[0]), Store: s.store, Overrides: new(evaluate.Overrides),
		Sinks:   []front.Sink{front.SinkFunc(s.record)},
		OnError: func(context.Context, error) {}, Now: s.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	use()
}

func (s *served) record(_ context.Context, r *front.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := *r
	of.Event.Evaluated = nil // not valid later
	s.records = append(s.records, of)
}

// refused returns the number of refusals for a reason.
func (s *served) refused(reason string) int64 {
	for name, n := range s.Refused() {
		if name == reason {
			return n
		}
	}
	return -1
}

// client is a connection.
type client struct{ net.Conn }

func (s *served) connect(t *testing.T) client {
	t.Helper()
	c := client{s.Connect("192.0.2.1")}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// expect sends bytes and expects an answer.
func (c client) expect(t *testing.T, send, want string) {
	t.Helper()
	go func() { _, _ = io.WriteString(c, send) }()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	got := make([]byte, len(want))
	n, err := io.ReadFull(c, got)
	if string(got[:n]) != want || err != nil {
		t.Fatalf("to %.200q:\ngot  %q, %v\nwant %q", send, got[:n], err, want)
	}
}

// ends expects an answer, and the end of the connection.
func (c client) ends(t *testing.T, send, want string) {
	t.Helper()
	go func() { _, _ = io.WriteString(c, send) }()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(got), want) || want == "" && len(got) > 0 {
		t.Fatalf("to %.200q:\ngot  %q, %v\nwant %q", send, got, err, want)
	}
}

// command returns the bytes of a command.
func command(text string) string {
	words := strings.Fields(text)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		if w == `""` {
			w = ""
		}
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// numbers returns the bytes of an answer of numbers.
func numbers(n ...int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(n))
	for _, n := range n {
		fmt.Fprintf(&b, ":%d\r\n", n)
	}
	return b.String()
}

// TestRedisCell: the answers are those of redis-cell.
func TestRedisCell(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	type step struct {
		command string
		want    []int64
		times   int
	}
	for _, session := range [][]step{
		{{"u 15 30 60", []int64{0, 16, 15, -1, 2}, 1}},
		{{"u 15 30 60", nil, 15}, {"u 15 30 60", []int64{0, 16, 0, -1, 32}, 1}, {"u 15 30 60", []int64{1, 16, 0, 2, 32}, 1}},
		{{"u 0 1 2", []int64{0, 1, 0, -1, 2}, 1}, {"u 0 1 2", []int64{1, 1, 0, 2, 2}, 1}},
		{
			{"u 4 1 1 6", []int64{1, 5, 5, -1, 0}, 1},
			{"u 4 1 1", []int64{0, 5, 4, -1, 1}, 1},
			{"u 4 1 1", nil, 3},
			{"u 4 1 1", []int64{0, 5, 0, -1, 5}, 1},
			{"u 4 1 1", []int64{1, 5, 0, 1, 5}, 1},
		},
		{
			{"u 2 3 10", []int64{0, 3, 2, -1, 4}, 1},
			{"u 2 3 10", []int64{0, 3, 1, -1, 7}, 1},
			{"u 2 3 10", []int64{0, 3, 0, -1, 10}, 1},
			{"u 2 3 10", []int64{1, 3, 0, 4, 10}, 1},
			{"u 2 3 10 0", []int64{0, 3, 0, -1, 10}, 1},
		},
	} {
		for _, step := range session {
			for range step.times {
				if step.want == nil {
					send := command("CL.THROTTLE " + step.command)
					go func() { _, _ = io.WriteString(c, send) }()
					if _, err := io.ReadAtLeast(c, make([]byte, 64), 10); err != nil {
						t.Fatal(err)
					}
					continue
				}
				c.expect(t, command("cl.throttle "+step.command), numbers(step.want...))
			}
		}
		s.clock.Advance(time.Hour)
	}
	// Their series of times, with a limit of 5 and 1 a second.
	began := s.clock.Now()
	for _, step := range []struct {
		ms, hits int64
		want     []int64
	}{
		{0, 5, []int64{0, 5, 0, -1, 5}},
		{3000, 1, []int64{0, 5, 2, -1, 3}},
		{3100, 1, []int64{0, 5, 1, -1, 4}},
		{4000, 1, []int64{0, 5, 1, -1, 4}},
		{8000, 1, []int64{0, 5, 4, -1, 1}},
		{9500, 1, []int64{0, 5, 4, -1, 1}},
		{9500, 0, []int64{0, 5, 4, -1, 1}},
		{9500, 2, []int64{0, 5, 2, -1, 3}},
		{9500, 5, []int64{1, 5, 2, 3, 3}},
	} {
		s.clock.Set(began.Add(time.Duration(step.ms) * time.Millisecond))
		c.expect(t, command(fmt.Sprintf("CL.THROTTLE series 4 1 1 %d", step.hits)), numbers(step.want...))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[len(s.records)-1]
	if !r.Ended || r.Event.Verdict != evaluate.Denied || r.Event.Limit.Name != "throttle" || r.Event.Charge.Key != "series" || r.Proto != "RESP" || r.Peer != "192.0.2.1:4711" {
		t.Errorf("record: %+v", r)
	}
}

// TestThrottleFaults: arguments out of range are errors and charge nothing.
func TestThrottleFaults(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	const number, sign = "-ERR value is not an integer or out of range\r\n", "-ERR count and period must be positive, and max_burst and quantity not negative\r\n"
	for args, want := range map[string]string{
		"u 4 1 1 -1": sign, "u -1 1 1": sign, "u 4 0 1": sign, "u 4 1 0": sign, "u 4 -1 1": sign, "u 4 1 -9223372036854775808": sign,
		"u x 1 1": number, "u 4 1 1.5": number, "u 4 1 9223372036854775808": number, `u 4 "" 1`: number, "u 4 1 +": number, "u 4 1 1 99999999999999999999": number,
		"u 4 1": "-ERR wrong number of arguments for 'cl.throttle' command\r\n", "u 4 1 1 1 1": "-ERR wrong number of arguments for 'cl.throttle' command\r\n",
	} {
		c.expect(t, command("CL.THROTTLE "+args), want)
	}
	for _, args := range []string{
		"u 9223372036854775807 1 1", "u 4 9223372036854775807 1", "u 4 1 9223372036854775807", "u 4 1 1 9223372036854775807", "u 4 1 31622401",
		"u 9007199254740991 1 1", "u 9007199254740990 9007199254740991 31622400",
	} {
		go func() { _, _ = io.WriteString(c, command("CL.THROTTLE "+args)) }()
		got := make([]byte, 1024)
		n, err := c.Read(got)
		if err != nil || got[0] != '-' && !strings.HasSuffix(args, " 31622400") {
			t.Errorf("%s: got %q, %v", args, got[:n], err)
		}
	}
	c.expect(t, command("CL.THROTTLE w 4 1 1"), numbers(0, 5, 4, -1, 1))
}

// TestThrottleChanged: a key whose parameters change back and forth gets no more than the
// largest of its limits gives, and parameters are kept in a bounded number.
func TestThrottleChanged(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	admitted := int64(0)
	for i := range 60 {
		send := command(fmt.Sprintf("CL.THROTTLE u %d %d 60", 4+5*(i%2), 1+9*(i%3)))
		go func() { _, _ = io.WriteString(c, send) }()
		got := make([]byte, 256)
		if n, err := c.Read(got); err != nil || !strings.HasPrefix(string(got[:n]), "*5\r\n:") {
			t.Fatal(string(got[:n]), err)
		}
		if got[5] == '0' {
			admitted++
		}
	}
	if admitted > 10 || admitted < 5 {
		t.Errorf("%d were admitted at once, by limits of bursts of 5 and 10", admitted)
	}
	for i := range 10_000 {
		c.expect(t, command(fmt.Sprintf("CL.THROTTLE v%d 0 %d 60", i, i+1)), "*5\r\n:0\r\n")
		if _, err := c.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPipeline: commands that come together are decided in one batch, in their order.
func TestPipeline(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	var send, want strings.Builder
	for i := range 16 {
		send.WriteString(command("CL.THROTTLE k 15 1 60"))
		want.WriteString(numbers(0, 16, int64(15-i), -1, int64(60*(i+1))))
	}
	c.expect(t, send.String(), want.String())
	if s.store.Batches() != 1 || s.store.Calls() != 1 {
		t.Errorf("%d batches, %d calls", s.store.Batches(), s.store.Calls())
	}
	// Answers of other commands stay between theirs.
	c.expect(t, command("CL.THROTTLE a 1 1 60")+command("PING")+command("CL.THROTTLE a 1 1 60")+command("nope")+command("CL.THROTTLE a 1 1 60")+"PING x\r\n",
		numbers(0, 2, 1, -1, 60)+"+PONG\r\n"+numbers(0, 2, 0, -1, 120)+"-ERR unknown command 'nope', with args beginning with: \r\n"+numbers(1, 2, 0, 60, 120)+"$1\r\nx\r\n")
	before := s.store.Batches()
	c.expect(t, command("CL.THROTTLE b 1 1 60")+command("SLUICE.PEEK all \"\"")+command("CL.THROTTLE b 1 1 60")+"\r\n*0\r\n*-1\r\n",
		numbers(0, 2, 1, -1, 60)+"*8\r\n:1\r\n:3\r\n:0\r\n:0\r\n:0\r\n$7\r\nallowed\r\n$3\r\nall\r\n$0\r\n\r\n"+numbers(0, 2, 0, -1, 120))
	if got := s.store.Batches() - before; got != 1 {
		t.Errorf("commands of both kinds: %d batches", got)
	}
}

// TestLongPipeline: 100,000 commands at once are answered in order, while the client reads.
func TestLongPipeline(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	const n = 100_000
	c.expect(t, strings.Repeat(command("CL.THROTTLE k 99999 1 60 0"), n), strings.Repeat(numbers(0, 100_000, 100_000, -1, 0), n))
}

// TestConnection: what clients send to connect is answered as Redis answers it.
func TestConnection(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	const two = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$7\r\nmodules\r\n*0\r\n"
	three := strings.NewReplacer("*14", "%7", "proto\r\n:2", "proto\r\n:3").Replace(two)
	for _, step := range [][2]string{
		{"PING", "+PONG\r\n"},
		{"ping hi", "$2\r\nhi\r\n"},
		{"ECHO hi", "$2\r\nhi\r\n"},
		{"SELECT 0", "+OK\r\n"},
		{"SELECT 1", "-ERR DB index is out of range\r\n"},
		{"HELLO", two},
		{"HELLO 4", "-NOPROTO unsupported protocol version\r\n"},
		{"HELLO 3 X", "-ERR Syntax error in HELLO option 'X'\r\n"},
		{"HELLO 3 SETNAME me", three},
		{"CLIENT GETNAME", "$2\r\nme\r\n"},
		{"CLIENT ID", ":1\r\n"},
		{"CLIENT SETINFO LIB-NAME x", "+OK\r\n"},
		{"CLIENT KILL x", "-ERR unknown subcommand 'KILL'\r\n"},
		{"COMMAND DOCS", "*0\r\n"},
		{"AUTH x", "-ERR AUTH called without any password configured: this listener has no tokens, and needs none\r\n"},
		{"HELLO 2", two},
		{"GET a", "-ERR unknown command 'GET', with args beginning with: 'a' \r\n"},
		{"ECHO", "-ERR wrong number of arguments for 'echo' command\r\n"},
		{"SLUICE.RESET user ada", "-NOPERM a client without a token may not reset; give it a token that may\r\n"},
		{"RESET", "+RESET\r\n"},
		{"CLIENT GETNAME", "$0\r\n\r\n"},
	} {
		c.expect(t, command(step[0]), step[1])
	}
	c.expect(t, "*1\r\n$8\r\nA\r\n+OK\r\n\r\n", "-ERR unknown command 'A  +OK  ', with args beginning with: \r\n")
	c.ends(t, command("PING")+command("QUIT")+command("PING"), "+PONG\r\n+OK\r\n")
}

// TestProtocolFaults: bytes that are no command end the connection, behind the answers before
// them.
func TestProtocolFaults(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	n := int64(0)
	for _, send := range []string{
		"*1000000\r\n", "*65\r\n", "*99999999999999999999\r\n", "*x\r\n", "*\r\n", "*1\n$4\nPING\n", "*-2\r\n",
		"*1\r\nPING\r\n", "*1\r\n$-1\r\n", "*1\r\n$16385\r\n", "*1\r\n$9223372036854775808\r\n", "*1\r\n$-9223372036854775808\r\n", "*1\r\n$4\r\nPINGxx",
		"*64\r\n" + strings.Repeat("$16384\r\n"+strings.Repeat("x", 16384)+"\r\n", 5),
		strings.Repeat("x", 20_000), strings.Repeat("x ", 65) + "\r\n", strings.Repeat("x", 20_000) + "\r\n", "POST / HTTP/1.1\r\n", "Host: x\r\n",
	} {
		s.connect(t).ends(t, command("CL.THROTTLE a 9000 1 60 0")+send, numbers(0, 9001, 9001, -1, 0)+"-ERR Protocol error: ")
		if n++; s.refused("protocol") != n {
			t.Errorf("%.40q is not counted", send)
		}
	}
}

// TestPieces: a command may come in pieces of any size.
func TestPieces(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	for size := 1; size < 60; size++ {
		c := s.connect(t)
		send := command("CL.THROTTLE \x00\xff\"\x01 15 30 60 0") + "PING\r\n" + command("CL.THROTTLE b 15 30 60 0")
		go func() {
			for from := 0; from < len(send); from += size {
				_, _ = io.WriteString(c, send[from:min(from+size, len(send))])
			}
		}()
		c.expect(t, "", numbers(0, 16, 16, -1, 0)+"+PONG\r\n"+numbers(0, 16, 16, -1, 0))
	}
	big := strings.Repeat("k", 16<<10)
	s.connect(t).expect(t, command("CL.THROTTLE "+big+" 15 30 60")+command("ECHO "+big), numbers(0, 16, 15, -1, 2)+"$16384\r\n"+big)
}

// TestTimes: connections end that send nothing, half a command, or read nothing.
func TestTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, rules, nil)
		idle, half, trickle, unread := s.connect(t), s.connect(t), s.connect(t), s.connect(t)
		go func() { _, _ = io.WriteString(half, "*1\r\n$4\r\nPI") }()
		go func() {
			for _, b := range []byte(command("CL.THROTTLE a 15 30 60")) {
				if _, err := trickle.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		go func() { _, _ = io.WriteString(unread, command("PING")) }()
		got := func(c client) string {
			b, err := io.ReadAll(c)
			if err != nil {
				t.Error(err)
			}
			return string(b)
		}
		began := time.Now()
		for _, c := range []client{half, trickle} {
			if text := got(c); text != "-ERR the command did not end within 10s; the connection is closed\r\n" {
				t.Errorf("half: %q", text)
			}
		}
		if time.Since(began) != 10*time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		time.Sleep(time.Second)
		if text := got(unread); text != "" {
			t.Errorf("unread: %q", text)
		}
		if text := got(idle); text != "-ERR no command came for 1h0m0s; the connection is closed\r\n" || time.Since(began) != time.Hour {
			t.Errorf("idle: %q after %v", text, time.Since(began))
		}
		if s.refused("half") != 2 || s.refused("idle") != 1 || s.refused("unread") != 1 {
			t.Errorf("half %d, idle %d, unread %d", s.refused("half"), s.refused("idle"), s.refused("unread"))
		}
	})
}

// TestHello: the protocol of answers changes where a command says so, between the others.
func TestHello(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	rest := "$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$5\r\nproto\r\n:%d\r\n$2\r\nid\r\n:1\r\n$7\r\nmodules\r\n*0\r\n"
	take := command("CL.THROTTLE a 9 1 60 0")
	c.expect(t, take+command("HELLO 3")+take+command("HELLO 2")+take,
		numbers(0, 10, 10, -1, 0)+"%7\r\n"+fmt.Sprintf(rest, 3)+numbers(0, 10, 10, -1, 0)+"*14\r\n"+fmt.Sprintf(rest, 2)+numbers(0, 10, 10, -1, 0))
}

// TestHangUp: a client that leaves within a command, or does not read, leaves nothing behind, and
// units of commands that it has sent are spent.
func TestHangUp(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	for _, send := range []string{"*", "*5\r\n$11\r\nCL.THRO", command("CL.THROTTLE left 9 1 60")} {
		c := s.connect(t)
		_, _ = io.WriteString(c, send)
		_ = c.Close()
	}
	testkit.Until(t, "the whole command to be decided", func() bool { return s.store.Calls() == 1 })
	unread := s.connect(t)
	_ = unread.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // it is blocked, as nobody reads
	_, _ = io.WriteString(unread, strings.Repeat(command("CL.THROTTLE left 9 1 60 0"), 5000))
	_ = unread.Close()
	s.connect(t).expect(t, command("CL.THROTTLE left 9 1 60 0"), numbers(0, 10, 9, -1, 60))
	if err := s.Shutdown(t.Context()); err != nil || s.InFlight() != 0 {
		t.Errorf("%v, %d connections are left", err, s.InFlight())
	}
}

// TestUnread: a client that takes no answers costs one wait, and no more than the answers that
// are kept.
func TestUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, rules, nil)
		c, began := s.connect(t), time.Now()
		big := command("ECHO "+strings.Repeat("x", 16<<10)) + command("CL.THROTTLE a 9 1 60")
		if n, err := io.WriteString(c, strings.Repeat(big, 100)); err == nil || n > 128<<10 {
			t.Errorf("%d bytes were read, %v", n, err)
		}
		synctest.Wait()
		if took := time.Since(began); took != 10*time.Second || s.refused("unread") != 1 {
			t.Errorf("after %v, counted %d times", took, s.refused("unread"))
		}
		s.connect(t).expect(t, command("PING"), "+PONG\r\n") // and nothing of that client
	})
}

// TestShutdown: a command in progress is answered, and connections that wait are closed.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	in, let := make(chan struct{}), make(chan struct{})
	s.store.Before = func(context.Context, sluice.Request) error {
		close(in)
		<-let
		return nil
	}
	idle, busy := s.connect(t), s.connect(t)
	idle.expect(t, command("PING"), "+PONG\r\n")
	go func() { _, _ = io.WriteString(busy, command("CL.THROTTLE a 15 30 60")) }()
	<-in
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	idle.ends(t, "", "")
	close(let)
	busy.ends(t, "", numbers(0, 16, 15, -1, 2))
	if err := <-ended; err != nil || s.InFlight() != 0 {
		t.Error(err, s.InFlight())
	}
}
