// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/feed"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/reload"
	"github.com/sluicegate/sluice/server/internal/report"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// APIOptions are the parts that an [API] shows and changes. All but Slots, Shared,
// System, State, Fleet, Self, Decisions, Explains, Admits, Claims, Token, Hosts,
// Secret and Now are required.
type APIOptions struct {
	// Policy returns the active policy.
	Policy func() *policy.Policy
	Store  sluice.Store
	Slots  sluice.SlotStore // of requests in flight; nil: they are not shown
	Shared bool             // other nodes use Store, too
	Tally  *tally.Tally
	// Version returns the active file, and the reason why a later one is not active.
	Version func() (active reload.Version, failure error)
	// System returns the state of the program apart from its rules. State returns the part
	// of it that pages get every few seconds; it must be cheap.
	System func() overview.System
	State  func() overview.State
	// Decisions returns the last decisions about keys; nil: they are not shown.
	Decisions func([]decided.Key) decided.List
	// Logs returns the logs that cannot be written; nil: all can.
	Logs func() []overview.Log
	// Fleet returns the reports of the other nodes of a shared store, with details of these
	// rules. Self returns the line of this node. Nil: there are no others.
	Fleet     func(ctx context.Context, rules []string) report.Fleet
	Self      func() report.Node
	Overrides *overrides.List
	// Audit gets an entry of every change before it is made.
	Audit *audit.Log
	// Explains is the [sluice.ExplainStore] behind Store, which counts no calls; nil: Store.
	// Admits and Claims are as in [explain.Explainer].
	Explains sluice.Store
	Admits   func(netip.Addr) bool
	Claims   func(*http.Request) (claims func(string) (string, error), required bool, err error)

	// Token is the bearer token that callers need. Empty means that every
	// caller on this machine may see and change everything. Then the API
	// answers no other machine, and no request that a web page may have made.
	Token string
	// Hosts are as in [Options].
	Hosts []string
	// Secret hides keys from callers without the token. Nil means a new one.
	Secret []byte
	Now    func() time.Time // nil means time.Now
	// Every is the time between two ticks of the history of requests; 0 means 1 s.
	Every time.Duration
}

// API is the [http.Handler] behind "sluice status", "sluice key", "sluice explain" and
// the page: docs/admin-api.md. Answers are JSON; errors are an [Error].
type API struct {
	o     APIOptions
	mux   *http.ServeMux
	feed  *feed.Feed
	token atomic.Pointer[string]

	sessions *sessions
	detailed atomic.Pointer[[]string] // rules, of the next answer about the fleet
}

// SetToken replaces the bearer token, and ends the sessions that the old one has opened.
// An API with a token keeps it if the new one is empty, so that it does not become
// open to all on this machine. It is safe for concurrent use.
func (a *API) SetToken(token string) {
	if old := *a.token.Load(); token != old && (token != "" || old == "") {
		a.token.Store(&token)
	}
}

// NewAPI returns an API, or an error that names a missing option.
func NewAPI(o APIOptions) (*API, error) {
	if o.Policy == nil || o.Store == nil || o.Tally == nil || o.Version == nil || o.Overrides == nil || o.Audit == nil {
		return nil, errors.New("admin: new API: only Slots, Shared, Logs, System, State, Fleet, Self, Decisions, Explains, Admits, Claims, Token, Hosts, Secret and Now may be left out")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Explains == nil {
		o.Explains = o.Store
	}
	if o.Secret == nil {
		o.Secret = []byte(rand.Text())
	}
	s, err := newSessions(o.Secret, o.Now)
	if err != nil {
		return nil, fmt.Errorf("admin: new API: %w", err)
	}
	a := &API{o: o, mux: http.NewServeMux(), feed: feed.New(mostLive), sessions: s}
	a.token.Store(&o.Token)
	for _, route := range a.routes() {
		handle := route.handle
		if route.token {
			handle = a.withToken(handle)
		}
		a.mux.HandleFunc(route.pattern, handle)
	}
	return a, nil
}

// route is a request that an API answers. A route with token shows keys in clear, or
// changes something. docs/admin-api.md lists the routes.
type route struct {
	pattern string
	token   bool
	handle  http.HandlerFunc
}

func (a *API) routes() []route {
	return []route{
		{"GET /v1/overview", false, a.overview},
		{"GET /v1/fleet", false, a.fleet},
		{"GET /v1/live", false, a.live},
		{"GET /v1/top", false, a.top},
		{"GET /policy", true, a.policy},
		{"GET /v1/policy", true, a.policy},
		{"GET /v1/key", true, a.showKey},
		{"POST /v1/key/reset", true, a.resetKey},
		{"POST /v1/key/add", true, a.addToKey},
		{"PUT /v1/override", true, a.putOverride},
		{"DELETE /v1/override", true, a.deleteOverride},
		{"GET /v1/audit", true, a.listAudit},
		{"POST /v1/explain", true, a.explain},
		{"GET /v1/session", false, a.session},
		{"POST /v1/session", false, a.login},
		{"DELETE /v1/session", false, a.logout},
	}
}

// withToken answers 401 to callers without the token or a session.
func (a *API) withToken(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !a.authorised(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, errors.New("this needs the token: send Authorization: Bearer TOKEN, or give --token-file"))
			return
		}
		handle(w, r)
	}
}

// ServeHTTP answers the caller.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if *a.token.Load() == "" && !local(r) {
		fail(w, http.StatusForbidden, errNotLocal)
		return
	}
	if err := misdirected(r, a.o.Hosts); err != nil {
		fail(w, http.StatusMisdirectedRequest, err)
		return
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		fail(w, http.StatusForbidden, err)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// authorised reports whether a caller may see keys in clear and make changes.
func (a *API) authorised(r *http.Request) bool {
	want := *a.token.Load()
	if want == "" {
		return true // ServeHTTP answers only callers on this machine then
	}
	if _, ok := a.sessions.until(r, a.o.Now(), a.token.Load()); ok {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1
}

// Error is the document of an answer with an error.
type Error struct {
	Error string `json:"error"`
	// Conflict is the override that another caller has made meanwhile.
	Conflict *overrides.Stored `json:"conflict,omitempty"`
}

func fail(w http.ResponseWriter, status int, err error) { answer(w, status, Error{Error: err.Error()}) }

func answer(w http.ResponseWriter, status int, doc any) {
	body, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error": "the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = w.Write(append(body, '\n'))
}

const mostBody = 1 << 20 // bytes of a request

// read reads the document of a change, strictly.
func read(r *http.Request, into any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, mostBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the request's document cannot be read: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the request's document is followed by something else; send one document")
	}
	return nil
}

// asked reads the document of a change. It answers a faulty one with an error and reports
// false.
func asked(w http.ResponseWriter, r *http.Request, into interface{ check() error }) bool {
	err := read(r, into)
	if err == nil {
		err = into.check()
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
	}
	return err == nil
}

// statusOf returns the status for a change that was not made: that of a server fault if the
// disk failed, or else otherwise.
func statusOf(err error, otherwise int) int {
	switch {
	case !errors.Is(err, audit.ErrNotWritten) && !errors.Is(err, overrides.ErrNotKept):
		return otherwise
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return http.StatusInsufficientStorage
	default:
		return http.StatusInternalServerError
	}
}

// change writes a change that a request asks for to the audit log and makes it.
func (a *API) change(r *http.Request, e audit.Entry, do func(*audit.Entry) (told bool, err error)) error {
	e.Remote = r.RemoteAddr
	return a.o.Audit.Change(r.Context(), e, do)
}
