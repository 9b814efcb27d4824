// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package limittest

import (
	"bufio"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// ClientAddress tests that the client is the peer, whatever address it claims, or the one
// named by a trusted proxy.
func ClientAddress(t *testing.T, start Start) {
	t.Run("nobody is trusted", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Rule(t, "2/min")}})
		for i, forged := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.3"} {
			want := []int{200, 200, 429}[i]
			if got := s.Get(t, "/bytes", "X-Forwarded-For: "+forged, "X-Real-Ip: "+forged, "Forwarded: for="+forged); got != want {
				t.Errorf("request %d: got %d, want %d", i+1, got, want)
			}
		}
	})
	t.Run("a proxy is trusted", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{
			Rules: []policy.Rule{Rule(t, "2/min")}, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})
		for i, c := range []struct {
			forwarded string
			want      int
		}{
			{"203.0.113.1", 200},
			{"203.0.113.1", 200},
			{"203.0.113.1", 429},
			{"203.0.113.2", 200},
			{"203.0.113.9, 203.0.113.1", 429}, // the left one was forged
		} {
			if got := s.Get(t, "/bytes", "X-Forwarded-For: "+c.forwarded); got != c.want {
				t.Errorf("request %d of %s: got %d, want %d", i+1, c.forwarded, got, c.want)
			}
		}
	})
}

// Hijacks tests that a hijacked connection keeps its slot until it has ended, and that its
// bytes count if the framework reports them.
func Hijacks(t *testing.T, start Start, counted bool) {
	t.Run("slots", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{OneAtATime()}})
		end := s.hijack(t)
		if got := s.Get(t, "/bytes"); got != http.StatusTooManyRequests {
			t.Errorf("beside a hijacked connection: got %d, want 429", got)
		}
		end()
		s.Free(t)
	})
	t.Run("status", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Counting(t, "9/min", http.StatusSwitchingProtocols, false)}})
		s.hijack(t)()
		s.Reach(t, "9/min", 1)
	})
	for of, reads := range map[policy.CostOf]int64{policy.RequestBytes: 5, policy.ResponseBytes: int64(len(switching) + 5)} {
		if !counted {
			break
		}
		t.Run(policy.Cost{Of: of}.String(), func(t *testing.T) {
			r := Rule(t, bytesLimit)
			r.Cost = policy.Cost{Of: of}
			s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{r}})
			s.hijack(t)()
			s.Reach(t, bytesLimit, reads)
		})
	}
}

// switching is the response of /hijack, before its echo.
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

// Echo answers the connection of /hijack.
func Echo(conn io.ReadWriter) {
	if _, err := io.WriteString(conn, switching); err == nil {
		EchoAll(conn)
	}
}

// EchoAll sends all received bytes back until there are no more.
func EchoAll(conn io.ReadWriter) { _, _ = io.Copy(conn, struct{ io.Reader }{conn}) } // until the client leaves

// hijack sends and reads five bytes over a hijacked connection. Two of them come with the
// request.
func (s *Site) hijack(t *testing.T) (end func()) {
	t.Helper()
	conn := s.Dial(t, "GET /hijack HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhe")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // the response has no body
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d, want 101", resp.StatusCode)
	}
	if _, err := io.WriteString(conn, "llo"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "hello" {
		t.Fatalf("read %q, %v, want hello", got, err)
	}
	return func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Answers tests the limits' fields and the options' answers.
func Answers(t *testing.T, start Start) {
	t.Run("by default", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Rule(t, "1/min")}})
		for _, want := range []struct {
			status       int
			limit, retry string
			media        string
		}{
			{200, `"api";r=0;t=60`, "", "text/plain"},
			{429, `"api";r=0;t=60`, "60", "application/problem+json"},
		} {
			got := s.Ask(t, http.MethodGet, "/bytes", http.NoBody)
			media, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
			if got.Status != want.status || got.Header.Get("Ratelimit") != want.limit || got.Header.Get("Retry-After") != want.retry || media != want.media {
				t.Errorf("got %d, %v; want %+v", got.Status, got.Header, want)
			}
			if refused := strings.Contains(got.Body, "quota-exceeded"); refused != (want.status == 429) {
				t.Errorf("%d has the body %q", got.Status, got.Body)
			}
		}
	})
	t.Run("of one's own", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{
			Rules: []policy.Rule{Rule(t, "1/min")},
			Refuse: func(w http.ResponseWriter, _ *http.Request, e httplimit.Event) {
				w.Header().Set("Content-Type", "text/x-mine")
				w.WriteHeader(e.Status)
				_, _ = io.WriteString(w, "slow ") // the client is there
				_, _ = io.WriteString(w, "down")
			},
		})
		s.Get(t, "/bytes")
		got := s.Ask(t, http.MethodGet, "/bytes", http.NoBody)
		if got.Status != http.StatusTooManyRequests || got.Body != "slow down" || got.Header.Get("Content-Type") != "text/x-mine" || got.Header.Get("Retry-After") != "60" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("skipped", func(t *testing.T) {
		s := Serve(t, start, httplimit.Options{
			Rules: []policy.Rule{Rule(t, "1/min")},
			Skip:  func(r *http.Request) bool { return r.URL.Path == "/bytes" },
		})
		for range 3 {
			if got := s.Ask(t, http.MethodGet, "/bytes", http.NoBody); got.Status != http.StatusOK || got.Header.Get("Ratelimit") != "" {
				t.Errorf("got %d, %v", got.Status, got.Header)
			}
		}
	})
}

// Fields tests the header fields that rules and handlers see.
func Fields(t *testing.T, start Start) {
	l, err := sluice.ParseLimit("2/min")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(t, start, httplimit.Options{Rules: []policy.Rule{policy.NewRule("api", policy.Header("X-User"), l)}})
	for _, c := range []struct {
		name   string
		fields []string
		status int
		body   string
	}{
		{"once", []string{"X-User: ann"}, 200, "ann"},
		{"in another case", []string{"x-user: ann"}, 200, "ann"},
		{"over the limit", []string{"X-User: ann"}, 429, ""},
		{"another", []string{"X-User: bob"}, 200, "bob"},
		{"twice", []string{"X-User: bob", "X-User: eve"}, 400, ""},
		{"none", nil, 400, ""},
		{"of the hop", []string{"X-User: eve", "Connection: x-user"}, 400, ""},
	} {
		got := s.Ask(t, http.MethodGet, "/header", http.NoBody, c.fields...)
		if got.Status != c.status || c.status == 200 && got.Body != c.body {
			t.Errorf("%s: got %d %q, want %d %q", c.name, got.Status, got.Body, c.status, c.body)
		}
	}
	hop := Serve(t, start, httplimit.Options{Rules: []policy.Rule{Rule(t, "2/min")}})
	if got := hop.Ask(t, http.MethodGet, "/header", http.NoBody, "X-User: eve", "Connection: x-user"); got.Body != "" {
		t.Errorf("the handler has seen a field of the hop: %q", got.Body)
	}
}
