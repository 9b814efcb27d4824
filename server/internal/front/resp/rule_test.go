// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/resp"
)

// decided returns the bytes of an answer to a command that names a rule.
func decided(n [5]int64, verdict, limit, receipt string) string {
	text := strings.Replace(numbers(n[:]...), "*5", "*8", 1)
	for _, s := range []string{verdict, limit, receipt} {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
	}
	return text
}

// at is the receipt of units taken now.
func (s *served) at(units int64) string {
	at := sluice.Instant(s.clock.Micros())
	return front.Receipt{At: at, Due: at, Units: units}.String()
}

// TestTake: a command names a rule and the values of its key.
func TestTake(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	const minute = 60_000
	for _, step := range []struct {
		command string
		n       [5]int64
		verdict string
		limit   string
		units   int64 // of the receipt
	}{
		{"TAKE user ada 4", [5]int64{1, 6, 0, minute, 0}, "allowed", "user", 4},
		{"TAKE user ada", [5]int64{1, 5, 0, minute, 0}, "allowed", "user", 1},
		{"PEEK user ada 6", [5]int64{0, 5, minute, minute, 0}, "denied", "user", 0},
		{"TAKE user ada 6", [5]int64{0, 5, minute, minute, 0}, "denied", "user", 0},
		{"TAKE user ada 11", [5]int64{0, 5, -1, minute, 0}, "denied", "user", 0},
		{"TAKE user ada 0", [5]int64{1, 5, 0, minute, 0}, "allowed", "user", 0},
		{"TAKE user a|b%7C 10", [5]int64{1, 0, 0, minute, 0}, "allowed", "user", 10}, // one value is as it is
		{"TAKE entry ada 4", [5]int64{1, 6, 0, minute, 0}, "allowed", "entry", 4},
		{"TAKE user a|b| 1", [5]int64{1, 9, 0, minute, 0}, "allowed", "user", 1},
		{"TAKE two a|b 10", [5]int64{1, 0, 0, minute, 0}, "allowed", "two", 10},
		{"TAKE two a|c 10", [5]int64{1, 0, 0, minute, 0}, "allowed", "two", 10},
		{"TAKE two a%7Cb%25|c 10", [5]int64{1, 0, 0, minute, 0}, "allowed", "two", 10},
		{"TAKE all \"\" 3", [5]int64{1, 0, 0, minute, 0}, "allowed", "all", 3},
		{"TAKE net 198.51.100.7 3", [5]int64{1, 0, 0, minute, 0}, "allowed", "net", 3}, // its path does not matter
		{"TAKE net 198.51.100.8", [5]int64{0, 0, minute, minute, 0}, "denied", "net", 0},
		{"TAKE net 198.51.100.0/24", [5]int64{0, 0, minute, minute, 0}, "denied", "net", 0},
		{"TAKE net 192.0.2.8 9", [5]int64{1, 0, 0, 0, 0}, "allowed", "", 0}, // exempt
		{"TAKE path u1", [5]int64{1, 1, 0, minute, 0}, "allowed", "path", 2},
		{"TAKE path u1 1", [5]int64{1, 0, 0, minute, 0}, "allowed", "path", 1},
		{"TAKE first header.X-User=ada 3", [5]int64{1, 0, 0, minute, 0}, "allowed", "first", 3},
		{"TAKE first ip=192.0.2.9 3", [5]int64{1, 0, 0, minute, 0}, "allowed", "first", 3},
		{"TAKE first ip=192.0.2.9", [5]int64{0, 0, minute, minute, 0}, "denied", "first", 0},
		{"TAKE special 192.0.2.7|ada 4", [5]int64{1, 5, 0, minute, 0}, "allowed", "special", 4},
		{"TAKE special 192.0.2.0/24|ada", [5]int64{1, 4, 0, minute, 0}, "allowed", "special", 1},
		{"TAKE special 192.0.2.7|probe 4", [5]int64{1, 0, 0, 0, 0}, "allowed", "", 0},
		{"TAKE special 192.0.2.7|bob 4", [5]int64{0, 3, -1, 0, 0}, "denied", "special", 0},
		{"TAKE tree acme|ada 2", [5]int64{1, 0, 0, minute, 0}, "allowed", "tree/user", 2},
		{"TAKE tree acme|bob 2", [5]int64{1, 0, 0, minute, 0}, "allowed", "tree/org", 2},
		{"TAKE tree acme|eve", [5]int64{0, 0, minute, minute, 0}, "denied", "tree/org", 0},
		{"TAKE queue ada", [5]int64{1, 1, 0, 1000, 0}, "allowed", "queue", 1},
		{"TAKE soft ada", [5]int64{1, 0, 0, minute, 0}, "allowed", "soft/sliding-log.min", 1},
		{"TAKE dry ada", [5]int64{1, 0, 0, 0, 0}, "allowed", "", 0},
		{"TAKE dry ada", [5]int64{1, 0, 0, 0, 0}, "allowed", "", 0},
	} {
		receipt := ""
		if step.units > 0 {
			receipt = s.at(step.units)
		}
		c.expect(t, command("SLUICE."+step.command), decided(step.n, step.verdict, step.limit, receipt))
	}
	for text, want := range map[string]string{
		"TAKE nope ada": "there is no rule of that name", "TAKE two ada": `the key of this rule is "header.X-User|query.key"`, "TAKE two a|b|c": "the key of this rule is",
		"TAKE two a|": "empty value of query.key", "TAKE user \"\"": "empty value", "TAKE all x": `the key of this rule is ""`, "TAKE net x": "not an address", "TAKE net 198.51.100.7/25": "is not a network",
		"TAKE first ada": "", "TAKE user ada -1": "not an integer", "TAKE user ada 9007199254740992": "not an integer", "TAKE user": "wrong number", "TAKE user ada 1 1": "wrong number",
	} {
		go func() { _, _ = io.WriteString(c, command("SLUICE."+text)) }()
		got := make([]byte, 1024)
		n, err := c.Read(got)
		if err != nil || got[0] != '-' || !strings.Contains(string(got[:n]), want) {
			t.Errorf("%s: got %q, %v", text, got[:n], err)
		}
	}
}

// TestTakeBatch: commands that name rules are decided in one batch, those that name the same key
// in order, and are recorded once each.
func TestTakeBatch(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	var send, want string
	for i := range int64(12) {
		send += command("SLUICE.TAKE user ada")
		switch {
		case i < 10:
			want += decided([5]int64{1, 9 - i, 0, 60_000, 0}, "allowed", "user", s.at(1))
		default:
			want += decided([5]int64{0, 0, 60_000, 60_000, 0}, "denied", "user", "")
		}
	}
	c.expect(t, send, want)
	if s.store.Batches() != 1 || s.store.Calls() != 1 {
		t.Errorf("%d batches, %d calls", s.store.Batches(), s.store.Calls())
	}
	c.expect(t, command("SLUICE.PEEK user ada"), decided([5]int64{0, 0, 60_000, 60_000, 0}, "denied", "user", ""))
	s.mu.Lock()
	defer s.mu.Unlock()
	var denied int
	for _, r := range s.records {
		if r.Event.Verdict == evaluate.Denied && r.Event.Rule.Name == "user" && r.Method == "SLUICE.TAKE" && !r.Ended {
			denied++
		}
	}
	if len(s.records) != 24 || denied != 2 {
		t.Errorf("%d records, %d denied", len(s.records), denied)
	}
}

// TestHold: a hold is opened once, and settled once.
func TestHold(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	c := s.connect(t)
	for range 2 {
		c.expect(t, command("SLUICE.HOLD user ada order1 6 60000"), decided([5]int64{1, 4, 0, 60_000, 0}, "allowed", "user", "open"))
	}
	c.expect(t, command("SLUICE.HOLD user ada order1 5 60000"), decided([5]int64{0, 0, -1, 0, 0}, "denied", "user", "differs"))
	for range 2 {
		c.expect(t, command("SLUICE.SETTLE user ada order1 2"), "*2\r\n:2\r\n$7\r\nsettled\r\n")
	}
	c.expect(t, command("SLUICE.PEEK user ada"), decided([5]int64{1, 8, 0, 60_000, 0}, "allowed", "user", ""))
	c.expect(t, command("SLUICE.HOLD user ada order2 6 10"), "-ERR ttl_ms must be 1000 to 86400000\r\n")
	c.expect(t, command("SLUICE.HOLD user ada order2 x 60000"), "-ERR value is not an integer or out of range\r\n")
	c.expect(t, command("SLUICE.SETTLE user ada order2 -1"), "-ERR value is not an integer or out of range\r\n")
}

// token is a token that may do operations by a rule.
type token struct {
	name, secret, rule string
	operations         []string
	own                bool
}

func (k *token) may(operation, rule string) bool {
	return slices.Contains(k.operations, operation) && (rule == "" && k.own || rule != "" && (k.rule == "" || k.rule == rule))
}

// among returns the Tokens of a list.
func among(all ...*token) resp.Tokens {
	return func(secret string) (string, func(operation, rule string) bool) {
		for _, k := range all {
			if k.secret == secret {
				return k.name, k.may
			}
		}
		return "", nil
	}
}

// TestTokens: a token decides what a client may do, and a change of the tokens applies at once.
func TestTokens(t *testing.T) {
	t.Parallel()
	shop := &token{"shop", "s3cret", "user", []string{"take", "peek", "refund", "reset"}, false}
	all := &token{"all", "other", "", []string{"take"}, true}
	s := start(t, rules, among(shop, all))
	c := s.connect(t)
	const none, wrong = "-NOAUTH Authentication required.\r\n", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	c.expect(t, command("PING")+command("SLUICE.TAKE user ada")+command("CL.THROTTLE a 1 1 1"), none+none+none)
	c.expect(t, command("AUTH x")+command("AUTH all s3cret")+command("HELLO 3 AUTH default x"), wrong+wrong+wrong)
	c.expect(t, command("HELLO 3"), "-NOAUTH HELLO must be called")
	_, _ = c.Read(make([]byte, 512))
	c.expect(t, command("AUTH default s3cret"), "+OK\r\n")
	taken := s.at(4)
	c.expect(t, command("SLUICE.TAKE user ada 4"), decided([5]int64{1, 6, 0, 60_000, 0}, "allowed", "user", taken))
	c.expect(t, command("CL.THROTTLE a 1 1 1"), "-NOPERM this token may not bring limits; give it own_limits\r\n")
	c.expect(t, command("SLUICE.TAKE two a|b"), "-NOPERM this token may not take by this rule; add these to its operations and rules\r\n")
	c.expect(t, command("SLUICE.HOLD user ada a 4 1000"), "-NOPERM this token may not hold by this rule; add these to its operations and rules\r\n")
	rest := front.Receipt{At: sluice.Instant(s.clock.Micros()), Units: 3}.String()
	c.expect(t, command("SLUICE.REFUND user ada "+taken+" 1"), fmt.Sprintf("*2\r\n:1\r\n$%d\r\n%s\r\n", len(rest), rest))
	c.expect(t, command("SLUICE.REFUND user ada "+rest+" 4"), "-ERR the receipt is of 3 units\r\n")
	c.expect(t, command("SLUICE.REFUND user ada "+rest), "*2\r\n:3\r\n$0\r\n\r\n")
	c.expect(t, command("SLUICE.REFUND user ada "+rest), "*2\r\n:0\r\n$0\r\n\r\n")
	for _, bad := range []string{"x", "1.2.3", "1.2.3.4.5", "1.-1.2.3", "1.1.2.0", "1.1.2.2gosa7pa2gw", "1.1y2p0ij32e8e8.1.1", "2.1.1.1"} {
		c.expect(t, command("SLUICE.REFUND user ada "+bad), "-ERR that is no receipt of SLUICE.TAKE\r\n")
	}
	c.expect(t, command("SLUICE.TAKE user ada 10"), decided([5]int64{1, 0, 0, 60_000, 0}, "allowed", "user", s.at(10)))
	c.expect(t, command("SLUICE.RESET user ada"), "+OK\r\n")
	c.expect(t, command("SLUICE.PEEK user ada"), decided([5]int64{1, 10, 0, 0, 0}, "allowed", "user", ""))
	c.expect(t, command("AUTH all other")+command("CL.THROTTLE a 1 1 1"), "+OK\r\n"+numbers(0, 2, 1, -1, 1))
	// Another configuration has no such token.
	f, err := config.Parse("sluice.yaml", []byte(listen(true)+rules))
	if err != nil {
		t.Fatal(err)
	}
	s.Tokens = tokensOf(among(shop))
	s.use(t, f)
	c.expect(t, command("CL.THROTTLE a 1 1 1"), none)
	c.expect(t, command("RESET")+command("AUTH s3cret")+command("RESET")+command("PING"), "+RESET\r\n+OK\r\n+RESET\r\n"+none)
	flood := s.connect(t)
	flood.ends(t, strings.Repeat(command("AUTH x"), 100), strings.Repeat(wrong, 8))
}

// TestStoreAway: a rule's failure policy decides, and CL.THROTTLE is an error.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	s.store.Store = testkit.Failing(errors.New("away"))
	c := s.connect(t)
	const away = "-TRYAGAIN the store could not be asked; retry later\r\n"
	c.expect(t, command("CL.THROTTLE a 1 1 1"), away)
	c.expect(t, command("CL.THROTTLE a 1 1 1")+command("CL.THROTTLE b 1 1 1"), away+away)
	c.expect(t, command("SLUICE.TAKE user ada"), decided([5]int64{1, 0, 0, 0, 0}, "failed-open", "", ""))
	c.expect(t, command("SLUICE.TAKE closed ada"), decided([5]int64{0, 0, 1000, 0, 0}, "failed-closed", "", ""))
	c.expect(t, command("SLUICE.SETTLE user ada a 1"), away)
}

// TestDegraded: a decision that a failure policy has made is no decision of CL.THROTTLE.
func TestDegraded(t *testing.T) {
	t.Parallel()
	s := start(t, rules, nil)
	s.store.Store = degraded{}
	c := s.connect(t)
	const away = "-TRYAGAIN the store could not be asked; retry later\r\n"
	c.expect(t, command("CL.THROTTLE a 1 1 1")+command("CL.THROTTLE b 1 1 1"), away+away)
	c.expect(t, command("SLUICE.TAKE user ada"), decided([5]int64{1, 0, 0, 0, 0}, "failed-open", "user", ""))
}

// degraded is a store that is away, under a policy that fails open.
type degraded struct{}

func (degraded) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{Allowed: true, Degraded: true}, nil
}

// TestAddress: allow and deny of the listener apply to clients.
func TestAddress(t *testing.T) {
	t.Parallel()
	s := start(t, "deny: 192.0.2.0/24\n"+rules, nil)
	s.connect(t).ends(t, "", "-NOPERM clients at this address are not admitted\r\n")
	if s.refused("address") != 1 {
		t.Error("not counted")
	}
}
