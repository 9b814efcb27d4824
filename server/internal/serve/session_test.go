// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const (
	goodToken = "0123456789abcdef0123456789abcdef"
	own       = "Sec-Fetch-Site: same-origin" // a browser's field for a page's own requests
)

func tokenFile(t *testing.T, text string) string { return testkit.TempFile(t, "token", text) }

// browse sends a request to the admin address like a browser: with fields, and a cookie if it
// is not nil.
func browse(t *testing.T, r *servetest.Gateway, cookie *http.Cookie, method, path, document string, fields ...string) (servetest.Answer, *http.Cookie) {
	t.Helper()
	req := servetest.Request(t.Context(), t, method, r.Admin+path, strings.NewReader(document))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	if cookie != nil {
		req.AddCookie(cookie)
	}
	got := servetest.Do(t, http.DefaultClient, req)
	for _, c := range (&http.Response{Header: got.Header}).Cookies() {
		return got, c
	}
	return got, nil
}

// login returns the cookie of a new session.
func login(t *testing.T, r *servetest.Gateway, token string, fields ...string) *http.Cookie {
	t.Helper()
	got, cookie := browse(t, r, nil, http.MethodPost, "/v1/session", fmt.Sprintf(`{"token": %q}`, token), fields...)
	if got.Status != http.StatusOK || cookie == nil {
		t.Fatalf("log in: %d %s", got.Status, got.Body)
	}
	return cookie
}

// showsKeys reports whether a cookie shows keys in clear.
func showsKeys(t *testing.T, r *servetest.Gateway, cookie *http.Cookie, fields ...string) bool {
	t.Helper()
	got, _ := browse(t, r, cookie, http.MethodGet, "/v1/overview", "", append([]string{own}, fields...)...)
	var o overview.Overview
	if err := json.Unmarshal([]byte(got.Body), &o); err != nil || got.Status != http.StatusOK {
		t.Fatalf("overview: %d %v", got.Status, err)
	}
	return !o.Hidden
}

func sessionServer(t *testing.T, clock *testkit.Clock, token string) *servetest.Gateway {
	t.Helper()
	return servetest.Start(t, fmt.Sprintf("upstream: %q\nadmin: {address: 127.0.0.1:0, token_file: %q}\nrules: [{name: api, by: header.X-User, limits: 3/min sliding-log}]\n", servetest.Named(t, "up"), token), func(o *serve.Options) { o.Now = clock.Now })
}

// TestSession: a login with the token allows to see and change keys by a cookie, from the page
// only, until the logout, the end of the session, or a change of the token.
func TestSession(t *testing.T) {
	t.Parallel()
	clock, token := testkit.ClockAt(servetest.FixedClock()), tokenFile(t, goodToken+"\n")
	s := sessionServer(t, clock, token)
	if got, _ := browse(t, s, nil, http.MethodGet, "/v1/session", ""); !strings.Contains(got.Body, `"needed": true`) || strings.Contains(got.Body, "until") {
		t.Errorf("before: %s", got.Body)
	}
	if got, cookie := browse(t, s, nil, http.MethodPost, "/v1/session", `{"token": "0123456789abcdef"}`, own); got.Status != http.StatusUnauthorized || cookie != nil {
		t.Errorf("another token: %d, %v", got.Status, cookie)
	}
	cookie := login(t, s, goodToken, own)
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
		{"an old browser on the page changes", "POST", "/v1/key/reset", reset, []string{"Origin: " + s.Admin}, http.StatusOK},
		{"who does not say where from changes", "POST", "/v1/key/reset", reset, nil, http.StatusUnauthorized},
		{"another page logs in", "POST", "/v1/session", `{"token": "` + goodToken + `"}`, []string{"Sec-Fetch-Site: cross-site"}, http.StatusForbidden},
		{"by another name", "GET", "/v1/session", "", []string{own, "Host: evil.example"}, http.StatusMisdirectedRequest},
	} {
		if got, _ := browse(t, s, cookie, c.method, c.path, c.document, c.fields...); got.Status != c.want {
			t.Errorf("%s: got %d, want %d: %s", c.name, got.Status, c.want, got.Body)
		}
	}
	if showsKeys(t, s, &http.Cookie{Name: cookie.Name, Value: strings.ToLower(cookie.Value)}) || showsKeys(t, s, nil) || !showsKeys(t, s, cookie) {
		t.Error("keys are shown to others, or not to who has logged in")
	}

	lines := events(t, s)
	if _, gone := browse(t, s, cookie, http.MethodDelete, "/v1/session", "", own); gone == nil || gone.MaxAge >= 0 {
		t.Errorf("log out: %v", gone)
	}
	ends(t, lines)
	if showsKeys(t, s, cookie) {
		t.Error("a session goes on after its end")
	}

	cookie = login(t, s, goodToken, own)
	clock.Advance(8*time.Hour - 1)
	if !showsKeys(t, s, cookie) {
		t.Error("a session is over too early")
	}
	clock.Advance(1)
	if showsKeys(t, s, cookie) {
		t.Error("a session lasts for ever")
	}

	cookie = login(t, s, goodToken, own)
	servetest.Replace(t, token, strings.Repeat("x", 32))
	testkit.Until(t, "the other token", func() bool { return !showsKeys(t, s, cookie) })
	login(t, s, strings.Repeat("x", 32), own)
}

// TestSessionNetwork: other machines can send a token over TLS only.
func TestSessionNetwork(t *testing.T) {
	t.Parallel()
	clock := testkit.ClockAt(servetest.FixedClock())
	s := sessionServer(t, clock, tokenFile(t, goodToken))
	const host = "Host: 192.0.2.1"
	document := fmt.Sprintf(`{"token": %q}`, goodToken)
	for _, origin := range []string{"X: y", "Origin: http://192.0.2.1"} {
		if got, cookie := browse(t, s, nil, http.MethodPost, "/v1/session", document, host, origin); got.Status != http.StatusForbidden || cookie != nil || !strings.Contains(got.Body, "in clear") {
			t.Errorf("%s: %d %s", origin, got.Status, got.Body)
		}
	}
	if got, _ := browse(t, s, nil, http.MethodGet, "/v1/overview", "", host, own); got.Status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", got.Status)
	}
	cookie := login(t, s, goodToken, host, "Origin: https://192.0.2.1", own)
	if !cookie.Secure || !showsKeys(t, s, cookie, host) {
		t.Errorf("by https: %v", cookie)
	}
}

// TestSessionBounds: attempts to log in, and sessions, are bounded.
func TestSessionBounds(t *testing.T) {
	t.Parallel()
	clock := testkit.ClockAt(servetest.FixedClock())
	s := sessionServer(t, clock, tokenFile(t, goodToken))
	first := login(t, s, goodToken, own)
	for range 9 {
		browse(t, s, nil, http.MethodPost, "/v1/session", `{"token": "nope"}`, own)
	}
	got, _ := browse(t, s, nil, http.MethodPost, "/v1/session", fmt.Sprintf(`{"token": %q}`, goodToken), own)
	if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "6" {
		t.Errorf("the eleventh attempt: %d %v", got.Status, got.Header)
	}
	for range 63 {
		clock.Advance(6 * time.Second)
		login(t, s, goodToken, own)
	}
	if !showsKeys(t, s, first) {
		t.Error("of 64 sessions one was ended")
	}
	clock.Advance(6 * time.Second)
	login(t, s, goodToken, own)
	if showsKeys(t, s, first) {
		t.Error("there are 65 sessions")
	}
	lines := events(t, s)
	clock.Advance(6 * time.Second)
	login(t, s, goodToken, own)
	ends(t, lines) // they may belong to the session that this one replaces
}

// TestSessionOverlaid: a cookie of the same name, set by a server at another port and sent
// first by the browser, neither hides a session nor prevents its end.
func TestSessionOverlaid(t *testing.T) {
	t.Parallel()
	s := sessionServer(t, testkit.ClockAt(servetest.FixedClock()), tokenFile(t, goodToken))
	cookie := login(t, s, goodToken, own)
	other := "Cookie: " + cookie.Name + "=other"
	if !showsKeys(t, s, cookie, other) {
		t.Error("another cookie hides the session")
	}
	if got, _ := browse(t, s, cookie, http.MethodGet, "/v1/session", "", own, other); !strings.Contains(got.Body, "until") {
		t.Errorf("session: %s", got.Body)
	}
	browse(t, s, cookie, http.MethodDelete, "/v1/session", "", own, other)
	if showsKeys(t, s, cookie) {
		t.Error("the session goes on after its end")
	}
}

// TestSessionNeedless: without a token there is no login.
func TestSessionNeedless(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, limits: 1/s}]\n", servetest.Named(t, "up")), servetest.Stopped)
	if got, cookie := browse(t, s, nil, http.MethodPost, "/v1/session", `{"token": ""}`, own); got.Status != http.StatusConflict || cookie != nil {
		t.Errorf("log in: %d %v", got.Status, cookie)
	}
	if got, _ := browse(t, s, nil, http.MethodGet, "/v1/session", "", own); !strings.Contains(got.Body, `"needed": false`) {
		t.Error(got.Body)
	}
}
