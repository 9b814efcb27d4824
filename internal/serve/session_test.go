// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/server/admin"
)

const (
	goodToken = "0123456789abcdef0123456789abcdef"
	own       = "Sec-Fetch-Site: same-origin" // what a browser says of a page's own requests
)

// setClock is a clock that a test sets.
type setClock struct{ after atomic.Int64 }

func (c *setClock) now() time.Time               { return fixedClock().Add(time.Duration(c.after.Load())) }
func (c *setClock) advance(by time.Duration)     { c.after.Add(int64(by)) }
func (c *setClock) of(o *Options)                { o.Now = c.now }
func tokenFile(t *testing.T, text string) string { return fileOf(t, "token", text) }

func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// browse asks the admin address as a browser does: with fields, and a cookie if it
// is not nil.
func (r *running) browse(t *testing.T, cookie *http.Cookie, method, path, document string, fields ...string) (answer, *http.Cookie) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.admin+path, strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	if cookie != nil {
		req.AddCookie(cookie)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		return answer{resp.StatusCode, resp.Header, string(body)}, c
	}
	return answer{resp.StatusCode, resp.Header, string(body)}, nil
}

// login returns the cookie of a new session.
func (r *running) login(t *testing.T, token string, fields ...string) *http.Cookie {
	t.Helper()
	got, cookie := r.browse(t, nil, http.MethodPost, "/v1/session", fmt.Sprintf(`{"token": %q}`, token), fields...)
	if got.status != http.StatusOK || cookie == nil {
		t.Fatalf("log in: %d %s", got.status, got.body)
	}
	return cookie
}

// clear reports whether a cookie shows keys in clear.
func (r *running) clear(t *testing.T, cookie *http.Cookie, fields ...string) bool {
	t.Helper()
	got, _ := r.browse(t, cookie, http.MethodGet, "/v1/overview", "", append([]string{own}, fields...)...)
	var o admin.Overview
	if err := json.Unmarshal([]byte(got.body), &o); err != nil || got.status != http.StatusOK {
		t.Fatalf("overview: %d %v", got.status, err)
	}
	return !o.Hidden
}

func sessionServer(t *testing.T, clock *setClock, token string) *running {
	t.Helper()
	return start(t, fmt.Sprintf("upstream: %q\nadmin: {address: 127.0.0.1:0, token_file: %q}\nrules: [{name: api, by: header.X-User, limits: 3/min sliding-log}]\n", named(t, "up"), token), clock.of)
}

// TestSession: who shows the token once may see and change keys by a cookie, from
// the page and from no other, until they log out, the session is over, or the token is
// another one.
func TestSession(t *testing.T) {
	clock, token := &setClock{}, tokenFile(t, goodToken+"\n")
	s := sessionServer(t, clock, token)
	if got, _ := s.browse(t, nil, http.MethodGet, "/v1/session", ""); !strings.Contains(got.body, `"needed": true`) || strings.Contains(got.body, "until") {
		t.Errorf("before: %s", got.body)
	}
	if got, cookie := s.browse(t, nil, http.MethodPost, "/v1/session", `{"token": "0123456789abcdef"}`, own); got.status != http.StatusUnauthorized || cookie != nil {
		t.Errorf("another token: %d, %v", got.status, cookie)
	}
	cookie := s.login(t, goodToken, own)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.MaxAge != 8*3600 || len(cookie.Value) < 26 || cookie.Value == goodToken || cookie.Domain+cookie.Path != "" {
		t.Errorf("cookie %v", cookie)
	}
	const reset = `{"parts": {"header.X-User": "ada"}, "author": "eve"}`
	for _, c := range []struct {
		name, method, path, document string
		fields                       []string
		want                         int
	}{
		{"the page reads", "GET", "/v1/key?header.X-User=ada", "", []string{own}, http.StatusOK},
		{"the page of another port reads", "GET", "/v1/key?header.X-User=ada", "", []string{"Sec-Fetch-Site: same-site"}, http.StatusUnauthorized},
		{"a link is followed", "GET", "/v1/key?header.X-User=ada", "", []string{"Sec-Fetch-Site: cross-site"}, http.StatusUnauthorized},
		{"an old browser reads", "GET", "/v1/key?header.X-User=ada", "", nil, http.StatusOK},
		{"the page changes", "POST", "/v1/key/reset", reset, []string{own}, http.StatusOK},
		{"the page of another port changes", "POST", "/v1/key/reset", reset, []string{"Sec-Fetch-Site: same-site"}, http.StatusForbidden},
		{"another page changes", "POST", "/v1/key/reset", reset, []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, http.StatusForbidden},
		{"an old browser on another page changes", "POST", "/v1/key/reset", reset, []string{"Origin: https://evil.example"}, http.StatusForbidden},
		{"an old browser on the page changes", "POST", "/v1/key/reset", reset, []string{"Origin: " + s.admin}, http.StatusOK},
		{"who does not say where from changes", "POST", "/v1/key/reset", reset, nil, http.StatusUnauthorized},
		{"another page logs in", "POST", "/v1/session", `{"token": "` + goodToken + `"}`, []string{"Sec-Fetch-Site: cross-site"}, http.StatusForbidden},
		{"by another name", "GET", "/v1/session", "", []string{own, "Host: evil.example"}, http.StatusMisdirectedRequest},
	} {
		if got, _ := s.browse(t, cookie, c.method, c.path, c.document, c.fields...); got.status != c.want {
			t.Errorf("%s: got %d, want %d: %s", c.name, got.status, c.want, got.body)
		}
	}
	if s.clear(t, &http.Cookie{Name: cookie.Name, Value: strings.ToLower(cookie.Value)}) || s.clear(t, nil) || !s.clear(t, cookie) {
		t.Error("keys are shown to others, or not to who has logged in")
	}

	lines := events(t, s)
	if _, gone := s.browse(t, cookie, http.MethodDelete, "/v1/session", "", own); gone == nil || gone.MaxAge >= 0 {
		t.Errorf("log out: %v", gone)
	}
	ends(t, lines)
	if s.clear(t, cookie) {
		t.Error("a session goes on after its end")
	}

	cookie = s.login(t, goodToken, own)
	clock.advance(8*time.Hour - 1)
	if !s.clear(t, cookie) {
		t.Error("a session is over too early")
	}
	clock.advance(1)
	if s.clear(t, cookie) {
		t.Error("a session lasts for ever")
	}

	cookie = s.login(t, goodToken, own)
	if err := os.WriteFile(token, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the other token", func() bool { return !s.clear(t, cookie) })
	s.login(t, strings.Repeat("x", 32), own)
}

// TestSessionNetwork: off this machine a token is taken over TLS only.
func TestSessionNetwork(t *testing.T) {
	clock := &setClock{}
	s := sessionServer(t, clock, tokenFile(t, goodToken))
	const host = "Host: 192.0.2.1"
	document := fmt.Sprintf(`{"token": %q}`, goodToken)
	for _, origin := range []string{"X: y", "Origin: http://192.0.2.1"} {
		if got, cookie := s.browse(t, nil, http.MethodPost, "/v1/session", document, host, origin); got.status != http.StatusForbidden || cookie != nil || !strings.Contains(got.body, "in clear") {
			t.Errorf("%s: %d %s", origin, got.status, got.body)
		}
	}
	if got, _ := s.browse(t, nil, http.MethodGet, "/v1/overview", "", host, own); got.status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", got.status)
	}
	cookie := s.login(t, goodToken, host, "Origin: https://192.0.2.1", own)
	if !cookie.Secure || !s.clear(t, cookie, host) {
		t.Errorf("by https: %v", cookie)
	}
}

// TestSessionBounds: attempts to log in, and sessions, are bounded.
func TestSessionBounds(t *testing.T) {
	clock := &setClock{}
	s := sessionServer(t, clock, tokenFile(t, goodToken))
	first := s.login(t, goodToken, own)
	for range 9 {
		s.browse(t, nil, http.MethodPost, "/v1/session", `{"token": "nope"}`, own)
	}
	got, _ := s.browse(t, nil, http.MethodPost, "/v1/session", fmt.Sprintf(`{"token": %q}`, goodToken), own)
	if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "6" {
		t.Errorf("the eleventh attempt: %d %v", got.status, got.header)
	}
	for range 63 {
		clock.advance(6 * time.Second)
		s.login(t, goodToken, own)
	}
	if !s.clear(t, first) {
		t.Error("of 64 sessions one was ended")
	}
	clock.advance(6 * time.Second)
	s.login(t, goodToken, own)
	if s.clear(t, first) {
		t.Error("there are 65 sessions")
	}
	lines := events(t, s)
	clock.advance(6 * time.Second)
	s.login(t, goodToken, own)
	ends(t, lines) // they may be those of the session that is ended for this one
}

// TestSessionOverlaid: a cookie of the same name, which what serves at another port has set
// and the browser sends first, neither hides a session nor keeps it from being ended.
func TestSessionOverlaid(t *testing.T) {
	s := sessionServer(t, &setClock{}, tokenFile(t, goodToken))
	cookie := s.login(t, goodToken, own)
	other := "Cookie: " + cookie.Name + "=other"
	if !s.clear(t, cookie, other) {
		t.Error("another cookie hides the session")
	}
	if got, _ := s.browse(t, cookie, http.MethodGet, "/v1/session", "", own, other); !strings.Contains(got.body, "until") {
		t.Errorf("session: %s", got.body)
	}
	s.browse(t, cookie, http.MethodDelete, "/v1/session", "", own, other)
	if s.clear(t, cookie) {
		t.Error("the session goes on after its end")
	}
}

// TestSessionNeedless: without a token there is nothing to log in with.
func TestSessionNeedless(t *testing.T) {
	s := start(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, limits: 1/s}]\n", named(t, "up")), stopped)
	if got, cookie := s.browse(t, nil, http.MethodPost, "/v1/session", `{"token": ""}`, own); got.status != http.StatusConflict || cookie != nil {
		t.Errorf("log in: %d %v", got.status, cookie)
	}
	if got, _ := s.browse(t, nil, http.MethodGet, "/v1/session", "", own); !strings.Contains(got.body, `"needed": false`) {
		t.Error(got.body)
	}
}
