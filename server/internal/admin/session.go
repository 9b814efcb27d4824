// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/audit"
)

const (
	sessionLife  = 8 * time.Hour
	mostSessions = 64   // one more ends the session that would end first
	mostCallers  = 1024 // addresses whose attempts to log in are counted
)

// attempts limits the attempts of an address to log in.
var attempts = sluice.PerMinute(10)

// Login is the document of POST /v1/session.
type Login struct {
	Token string `json:"token"`
}

// Session is the answer of GET and POST /v1/session.
type Session struct {
	// Needed reports whether keys in clear, and changes, need the token. If the API has
	// none, callers on this machine may do both.
	Needed bool `json:"needed"`
	// Until is the end of the caller's session; nil if it has none.
	Until *time.Time `json:"until,omitempty"`
}

// sessions are the sessions of browsers that have sent the token. They are safe for
// concurrent use.
type sessions struct {
	cookie string // name; each program has another, as cookies ignore ports
	tries  *sluice.Limiter

	mu sync.Mutex
	of map[[sha256.Size]byte]opened // by the hash of the cookie's value
}

// opened is a session. It is valid until a moment, and while the token is the one
// that opened it.
type opened struct {
	until time.Time
	by    *string
}

func newSessions(secret []byte, now func() time.Time) (*sessions, error) {
	store := memstore.New(memstore.Options{MaxKeys: mostCallers, Now: now})
	tries, err := sluice.New(store, "log-in", attempts)
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256(append([]byte("cookie "), secret...))
	return &sessions{cookie: "sluice_" + hex.EncodeToString(name[:6]), tries: tries, of: make(map[[sha256.Size]byte]opened)}, nil
}

// begin opens a session, and returns the value of its cookie, the end of the session, and
// whether it ended another session.
func (s *sessions) begin(now time.Time, by *string) (id string, until time.Time, ended bool) {
	id, until = rand.Text(), now.Add(sessionLife)
	ended = s.end(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) >= mostSessions {
		var first [sha256.Size]byte
		for of, o := range s.of {
			if at, ok := s.of[first]; !ok || o.until.Before(at.until) {
				first = of
			}
		}
		delete(s.of, first)
		ended = true
	}
	s.of[sha256.Sum256([]byte(id))] = opened{until, by}
	return id, until, ended
}

// ids returns the values of all cookies with the session's name. A server at another port of
// the host may have set some of them.
func (s *sessions) ids(r *http.Request) (list []string) {
	for _, c := range r.CookiesNamed(s.cookie) {
		list = append(list, c.Value)
	}
	return list
}

// until returns the end of the session of a request, if it has a valid one.
func (s *sessions) until(r *http.Request, now time.Time, token *string) (time.Time, bool) {
	if !ownPage(r) {
		return time.Time{}, false
	}
	ids := s.ids(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if o, ok := s.of[sha256.Sum256([]byte(id))]; ok && o.by == token && now.Before(o.until) {
			return o.until, true
		}
	}
	return time.Time{}, false
}

// end ends the sessions with these ids and the expired ones, and reports whether there
// were any.
func (s *sessions) end(now time.Time, ids ...string) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) == 0 {
		return false
	}
	before := len(s.of)
	for _, id := range ids {
		delete(s.of, sha256.Sum256([]byte(id)))
	}
	maps.DeleteFunc(s.of, func(_ [sha256.Size]byte, o opened) bool { return !now.Before(o.until) })
	return len(s.of) < before
}

// ownPage reports whether a request comes from a page of this address. Cookies of
// a host go to all its ports, and SameSite does not distinguish ports. A request without
// an origin may read but not change.
func ownPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return sameOrigin(origin, r)
	}
	return r.Method == http.MethodGet
}

// sameOrigin reports whether an Origin is the host of the request.
func sameOrigin(origin string, r *http.Request) bool {
	at, err := url.Parse(origin)
	return err == nil && at.Host == r.Host
}

// encrypted reports whether a browser has sent a request over TLS, which a proxy may have
// ended. Only a browser sends such an Origin.
func encrypted(r *http.Request) bool {
	at, err := url.Parse(r.Header.Get("Origin"))
	return r.TLS != nil || err == nil && at.Scheme == "https"
}

var (
	errTokenless = errors.New("there is no token to log in with: callers on this machine may see and change everything; give the program one by admin.token_file, or --token-file")
	errInClear   = errors.New("the token would cross the network in clear; ask by https, or on this machine, for example through ssh -L 9090:127.0.0.1:9090 HOST")
	errAttempts  = errors.New("too many attempts to log in from this address; wait")
	errToken     = errors.New("this is not the token; it is in the program's token file")
)

// login answers POST /v1/session with a cookie for the token.
func (a *API) login(w http.ResponseWriter, r *http.Request) (any, error) {
	token := a.token.Load()
	switch {
	case *token == "":
		return nil, failed(http.StatusConflict, errTokenless)
	case !encrypted(r) && !local(r):
		return nil, failed(http.StatusForbidden, errInClear)
	}
	switch d, err := a.sessions.try(r.Context(), r.RemoteAddr); {
	case err != nil:
		return nil, failed(http.StatusServiceUnavailable, err)
	case !d.Allowed:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(d.RetryAfter.Seconds()))))
		return nil, failed(http.StatusTooManyRequests, errAttempts)
	}
	var q Login
	if err := read(r, &q); err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(q.Token), []byte(*token)) != 1 {
		return nil, failed(http.StatusUnauthorized, errToken)
	}
	if err := a.o.Audit.Write(audit.Entry{Action: "log-in", Remote: r.RemoteAddr}); err != nil {
		err = fmt.Errorf("%w: %w", audit.ErrNotWritten, err)
		return nil, failed(http.StatusInternalServerError, err)
	}
	id, until, ended := a.sessions.begin(a.o.Now(), token)
	if ended {
		a.feed.Restart() // the ended session may have been reading
	}
	a.setCookie(w, r, id, int(sessionLife/time.Second))
	return Session{Needed: true, Until: new(until.UTC())}, nil
}

// try counts an attempt of an address. The addresses of an IPv6 network count as one.
func (s *sessions) try(ctx context.Context, remote string) (sluice.Decision, error) {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return s.tries.Take(ctx, remote, 1)
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return sluice.Decision{}, err
	}
	return s.tries.Take(ctx, network.String(), 1)
}

// logout answers DELETE /v1/session.
func (a *API) logout(w http.ResponseWriter, r *http.Request) (any, error) {
	if ownPage(r) && a.sessions.end(a.o.Now(), a.sessions.ids(r)...) {
		a.feed.Restart() // the ended session may have been reading
	}
	a.setCookie(w, r, "", -1)
	return Session{Needed: *a.token.Load() != ""}, nil
}

// setCookie sets a cookie without a path. So the path is that of the API, also if a proxy
// serves the API below another path.
func (a *API) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // over loopback there is no TLS
		Name: a.sessions.cookie, Value: value, MaxAge: age,
		HttpOnly: true, Secure: encrypted(r), SameSite: http.SameSiteStrictMode,
	})
}

// session answers GET /v1/session, which is no secret.
func (a *API) session(_ http.ResponseWriter, r *http.Request) (any, error) {
	s := Session{Needed: *a.token.Load() != ""}
	if until, ok := a.sessions.until(r, a.o.Now(), a.token.Load()); ok {
		s.Until = new(until.UTC())
	}
	return s, nil
}
