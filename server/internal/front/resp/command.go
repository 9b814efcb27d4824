// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// command is a command of the protocol.
type command struct {
	least, most int // arguments, with its name
	kind        kind
	do          func(*session, [][]byte)
}

// kind says when a command is done.
type kind uint8

const (
	after   kind = iota // the commands before it are answered
	anybody             // as well, and it needs no token
	batched             // together with commands before it
)

// commands are the commands by their names in capitals.
var commands = map[string]*command{
	"CL.THROTTLE":   {5, 6, batched, (*session).throttle},
	"SLUICE.TAKE":   {3, 4, batched, (*session).take},
	"SLUICE.PEEK":   {3, 4, batched, (*session).peek},
	"SLUICE.HOLD":   {6, 6, after, (*session).hold},
	"SLUICE.SETTLE": {5, 5, after, (*session).settle},
	"SLUICE.REFUND": {4, 5, after, (*session).refund},
	"SLUICE.RESET":  {3, 3, after, (*session).forget},
	"PING":          {1, 2, after, (*session).ping},
	"ECHO":          {2, 2, after, func(s *session, args [][]byte) { s.out = appendBulk(s.out, args[1]) }},
	"AUTH":          {2, 3, anybody, (*session).auth},
	"HELLO":         {1, mostArgs, anybody, (*session).hello},
	"CLIENT":        {2, mostArgs, after, (*session).client},
	"COMMAND":       {1, mostArgs, after, func(s *session, _ [][]byte) { s.out = append(s.out, noElement...) }},
	"INFO":          {1, mostArgs, after, func(s *session, _ [][]byte) { s.out = appendBulk(s.out, info) }},
	"SELECT":        {2, 2, after, (*session).selects},
	"QUIT":          {1, mostArgs, anybody, func(s *session, _ [][]byte) { s.out, s.quits = append(s.out, ok...), true }},
	"RESET":         {1, 1, anybody, (*session).reset},
}

// info is what clients look for in INFO. They take the version for that of Redis, and choose
// commands by it.
const info = "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n"

// do does a command.
func (s *session) do(args [][]byte) {
	var upper [16]byte
	name := args[0]
	if len(name) <= len(upper) {
		for i, c := range name {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			upper[i] = c
		}
		name = upper[:len(name)]
	}
	switch c := commands[string(name)]; {
	case c == nil:
		s.unknown(args)
	case len(args) < c.least || len(args) > c.most:
		s.fail(refusedCommand, "ERR wrong number of arguments for '%s' command", bytes.ToLower(args[0]))
	case c.kind != anybody && s.active.tokens != nil && s.user == "":
		s.fail(refusedAuth, "NOAUTH Authentication required.")
	default:
		if c.kind != batched {
			s.flush()
		}
		c.do(s, args)
	}
}

// unknown answers an unknown command, as Redis does.
func (s *session) unknown(args [][]byte) {
	const most = 128 // bytes
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%.*s', with args beginning with: ", most, args[0])
	for _, arg := range args[1:] {
		if b.Len() > 2*most {
			break
		}
		fmt.Fprintf(&b, "'%.*s' ", most, arg)
	}
	s.fail(refusedCommand, "%s", b.String())
}

func (s *session) ping(args [][]byte) {
	if len(args) == 2 {
		s.out = appendBulk(s.out, args[1])
		return
	}
	s.out = append(s.out, "+PONG\r\n"...)
}

// auth does AUTH [name] secret.
func (s *session) auth(args [][]byte) {
	user := ""
	if len(args) == 3 {
		user = string(args[1])
	}
	if s.login(user, string(args[len(args)-1])) {
		s.out = append(s.out, ok...)
	}
}

// login makes the client the holder of a token, or answers that there is none.
func (s *session) login(user, secret string) bool {
	if s.active.tokens == nil {
		s.fail(refusedAuth, "ERR AUTH called without any password configured: this listener has no tokens, and needs none")
		return false
	}
	name, rights := s.active.tokens(secret)
	if name == "" || user != name && user != "" && user != "default" { // clients that know no name send default
		s.fail(refusedAuth, "WRONGPASS invalid username-password pair or user is disabled.")
		s.failures++
		s.quits = s.failures == mostFailures
		return false
	}
	s.user, s.rights, s.secret = name, rights, secret
	return true
}

// hello does HELLO [protocol [AUTH name secret] [SETNAME name]].
func (s *session) hello(args [][]byte) {
	proto, rest := s.proto, args[1:]
	if len(rest) > 0 {
		if v, valid := integer(rest[0]); !valid || v < 2 || v > 3 {
			s.fail(refusedCommand, "NOPROTO unsupported protocol version")
			return
		}
		proto, rest = int(rest[0][0]-'0'), rest[1:]
	}
	for len(rest) > 0 {
		switch word := strings.ToUpper(string(rest[0])); {
		case word == "AUTH" && len(rest) >= 3:
			if !s.login(string(rest[1]), string(rest[2])) {
				return
			}
			rest = rest[3:]
		case word == "SETNAME" && len(rest) >= 2:
			s.name, rest = string(rest[1]), rest[2:]
		default:
			s.fail(refusedCommand, "ERR Syntax error in HELLO option '%s'", rest[0])
			return
		}
	}
	if s.active.tokens != nil && s.user == "" {
		s.fail(refusedAuth, "NOAUTH HELLO must be called with the client already authenticated, otherwise use HELLO <proto> AUTH <user> <pass>")
		return
	}
	s.proto = proto
	s.appendMap(7)
	for _, pair := range [...][2]string{{"server", "redis"}, {"version", "7.0.0"}, {"mode", "standalone"}, {"role", "master"}} {
		s.out = appendBulk(appendBulk(s.out, pair[0]), pair[1])
	}
	s.out = appendInt(appendBulk(s.out, "proto"), int64(proto))
	s.out = appendInt(appendBulk(s.out, "id"), s.id)
	s.out = append(appendBulk(s.out, "modules"), noElement...)
}

// client answers CLIENT, which clients send at the start.
func (s *session) client(args [][]byte) {
	switch word := strings.ToUpper(string(args[1])); word {
	case "SETNAME":
		s.name = string(args[len(args)-1])
		s.out = append(s.out, ok...)
	case "GETNAME":
		s.out = appendBulk(s.out, s.name)
	case "ID":
		s.out = appendInt(s.out, s.id)
	case "SETINFO", "TRACKING", "NO-EVICT", "NO-TOUCH": // there is nothing to track
		s.out = append(s.out, ok...)
	default:
		s.fail(refusedCommand, "ERR unknown subcommand '%.128s'", args[1])
	}
}

func (s *session) selects(args [][]byte) {
	if string(args[1]) != "0" {
		s.fail(refusedCommand, "ERR DB index is out of range")
		return
	}
	s.out = append(s.out, ok...)
}

func (s *session) reset([][]byte) {
	s.proto, s.name, s.user, s.rights, s.secret = 2, "", "", nil, ""
	s.out = append(s.out, "+RESET\r\n"...)
}

// may reports whether the client may do an operation, and answers if not.
func (s *session) may(operation, rule string) bool {
	switch {
	case s.active.tokens != nil && s.rights(operation, rule),
		s.active.tokens == nil && operation != "refund" && operation != "reset":
		return true
	case s.active.tokens == nil:
		s.fail(refusedRight, "NOPERM a client without a token may not %s; give it a token that may", operation)
	case rule == "":
		s.fail(refusedRight, "NOPERM this token may not bring limits; give it own_limits")
	default:
		s.fail(refusedRight, "NOPERM this token may not %s by this rule; add these to its operations and rules", operation)
	}
	return false
}

// ask is a decision to be made and answered.
type ask struct {
	command string
	burst   int64  // of CL.THROTTLE
	of      *asked // nil for CL.THROTTLE
	waits   bool   // its request is one of the batch
}

// nothing are the attributes of a request that names no rule.
var nothing = (&policy.Request{Length: -1}).Attributes()

// ask adds a decision to the batch; req is nil if it has been made.
func (s *session) ask(k ask, req *sluice.Request) {
	if k.waits = req != nil; k.waits {
		s.requests = append(s.requests, *req)
	}
	s.asks = append(s.asks, k)
}

// flush makes the decisions of the batch, and answers them.
func (s *session) flush() {
	if len(s.asks) == 0 {
		return
	}
	began, ctx, a := time.Now(), s.front.ctx, s.active
	for len(s.results) < len(s.requests) {
		s.results = append(s.results, sluice.Result{})
	}
	results := s.results[:len(s.requests)]
	if len(results) == 1 { // such as those of other connections are sent together with it
		results[0].Decision, results[0].Err = a.Store.Take(ctx, s.requests[0])
	} else if err := sluice.TakeBatch(ctx, a.Store, s.requests, results); err != nil {
		for i := range results {
			results[i].Err = err
		}
	}
	took, next := time.Since(began), 0
	for i := range s.asks {
		k, r := &s.asks[i], (*sluice.Result)(nil)
		var req *sluice.Request
		if k.waits {
			req, r = &s.requests[next], &results[next]
			next++
		}
		if q := k.of; q != nil {
			if k.waits {
				q.call.Conclude(ctx, *r, q.room)
			}
			if !q.call.Peek {
				s.record(k.command, &q.call.Event, q, began, took)
			}
			s.appendDecided(q)
			continue
		}
		if r.Err != nil {
			a.OnError(ctx, r.Err)
		} else if r.Decision.Degraded { // by a failure policy, which these limits do not have
			r.Err = errAway
		}
		if e := eventOf(&req.Charge, r); req.Op == sluice.OpTake {
			s.record(k.command, &e, nothing, began, took)
		}
		s.appendThrottled(k.burst, r)
	}
	clear(s.asks)
	clear(s.requests)
	s.asks, s.requests = s.asks[:0], s.requests[:0]
}

// record passes a decision to the page, the metrics and the logs.
func (s *session) record(command string, e *evaluate.Event, of policy.Attributes, began time.Time, took time.Duration) {
	for _, ended := range [...]bool{false, true} {
		s.active.records.Record(s.front.ctx, func(r *front.Record) {
			r.Event, r.Request, r.Ended, r.Route = *e, of, ended, name
			r.Method, r.Proto, r.Peer, r.At, r.Took, r.In = command, "RESP", s.peer, began, took, -1
		})
	}
}

var errAway = errors.New("resp: the store could not be asked")

// unavailable is the answer if the store has made no decision.
func unavailable(err error) string {
	if bad, ok := errors.AsType[*sluice.RequestError](err); ok {
		return "ERR " + bad.Field + " " + bad.Problem
	}
	if errors.Is(err, context.Canceled) {
		return "ERR the server is shutting down; connect again"
	}
	return "TRYAGAIN the store could not be asked; retry later"
}
