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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/feed"
	"github.com/sluicegate/sluice/server/internal/fleet"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/reload"
	"github.com/sluicegate/sluice/server/internal/report"
	"github.com/sluicegate/sluice/server/internal/tally"
)

// APIOptions are the parts that an [API] shows and changes. All but Slots, Shared, Fleet, Self,
// Admits, Claims, Token, Hosts and Every are required.
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
	// Decisions returns the last decisions about keys.
	Decisions func([]decided.Key) decided.List
	// Logs returns the logs that cannot be written.
	Logs func() []overview.Log
	// Fleet returns the reports of the other nodes of a shared store, with details of these
	// rules. Self returns the line of this node. Nil: there are no others.
	Fleet     func(ctx context.Context, rules []string) report.Fleet
	Self      func() report.Node
	Overrides *overrides.List
	// Audit gets an entry of every change before it is made.
	Audit *audit.Log
	// Explains is the [sluice.ExplainStore] behind Store, which counts no calls.
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
	Now   func() time.Time
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

	secret   []byte // hides keys from callers without the token
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

// NewAPI returns an API.
func NewAPI(o APIOptions) (*API, error) {
	secret := []byte(rand.Text())
	s, err := newSessions(secret, o.Now)
	if err != nil {
		return nil, fmt.Errorf("admin: new API: %w", err)
	}
	a := &API{o: o, mux: http.NewServeMux(), feed: feed.New(mostLive), sessions: s, secret: secret}
	a.token.Store(&o.Token)
	for _, route := range a.routes() {
		a.mux.HandleFunc(route.pattern, a.handler(&route))
	}
	return a, nil
}

// route is a request that an API answers. A route with token shows keys in clear, or
// changes something; one with data shows data without them. docs/admin-api.md lists the routes.
type route struct {
	pattern     string
	token, data bool
	// handle returns the document of the answer, or nil if it has answered itself.
	handle func(w http.ResponseWriter, r *http.Request) (doc any, err error)
}

func (a *API) routes() []route {
	return []route{
		{"GET /v1/overview", false, true, a.overview},
		{"GET /v1/fleet", false, true, a.fleet},
		{"GET /v1/live", false, true, a.live},
		{"GET /v1/top", false, true, a.top},
		{"GET /policy", true, false, a.policy},
		{"GET /v1/policy", true, false, a.policy},
		{"GET /v1/key", true, false, a.showKey},
		{"POST /v1/key/reset", true, false, a.resetKey},
		{"POST /v1/key/add", true, false, a.addToKey},
		{"PUT /v1/override", true, false, a.putOverride},
		{"DELETE /v1/override", true, false, a.deleteOverride},
		{"GET /v1/audit", true, false, a.listAudit},
		{"POST /v1/explain", true, false, a.explain},
		{"GET /v1/session", false, false, a.session},
		{"POST /v1/session", false, false, a.login},
		{"DELETE /v1/session", false, false, a.logout},
	}
}

var (
	errNoToken    = errors.New("this needs the token: send Authorization: Bearer TOKEN, or give --token-file")
	errUnreadable = errors.New("this is for callers on this machine, or with the token: send Authorization: Bearer TOKEN")
)

// handler answers the requests of a route. A route with token is for callers with the token or a
// session, and one with data also for callers on this machine.
func (a *API) handler(of *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var doc any
		var err error
		switch {
		case of.token && !a.authorised(r):
			err = failed(http.StatusUnauthorized, errNoToken)
		case of.data && !a.authorised(r) && !local(r):
			err = failed(http.StatusUnauthorized, errUnreadable)
		default:
			doc, err = of.handle(w, r)
		}
		switch {
		case err != nil:
			fail(w, err)
		case doc != nil:
			answer(w, http.StatusOK, doc)
		}
	}
}

// ServeHTTP answers the caller.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if *a.token.Load() == "" && !local(r) {
		fail(w, failed(http.StatusForbidden, errNotLocal))
		return
	}
	if err := misdirected(r, a.o.Hosts); err != nil {
		fail(w, failed(http.StatusMisdirectedRequest, err))
		return
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		fail(w, failed(http.StatusForbidden, err))
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

// failure is an error with the status of its answer.
type failure struct {
	error
	status int
}

// Unwrap returns the error.
func (f *failure) Unwrap() error { return f.error }

func failed(status int, err error) error { return &failure{err, status} }

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	doc, status := Error{Error: err.Error()}, statusOf(err)
	if other, ok := errors.AsType[*overrides.OtherChangeError](err); ok {
		doc.Conflict = other.Now
	}
	if errors.Is(err, errNoToken) || errors.Is(err, errUnreadable) {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	answer(w, status, doc)
}

// statusOf returns the status for an error: by default that of a faulty request. If a change could
// not be kept on the disk, the fault is the server's.
func statusOf(err error) int {
	_, conflict := errors.AsType[*overrides.OtherChangeError](err)
	unkept := errors.Is(err, audit.ErrNotWritten) || errors.Is(err, overrides.ErrNotKept)
	f, known := errors.AsType[*failure](err)
	switch {
	case conflict, errors.Is(err, fleet.ErrLater) && !unkept:
		return http.StatusConflict
	case unkept && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)):
		return http.StatusInsufficientStorage
	case unkept:
		return http.StatusInternalServerError
	case known:
		return f.status
	case errors.Is(err, overrides.ErrNone):
		return http.StatusNotFound
	case errors.Is(err, overrides.ErrUnavailable), errors.Is(err, audit.ErrUnknown):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

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

// asked reads the document of a change and checks it.
func asked(r *http.Request, into interface{ check() error }) error {
	if err := read(r, into); err != nil {
		return err
	}
	return into.check()
}

// change writes a change that a request asks for to the audit log and makes it.
func (a *API) change(r *http.Request, e audit.Entry, do func(*audit.Entry) (told bool, err error)) error {
	e.Remote = r.RemoteAddr
	return a.o.Audit.Change(r.Context(), e, do)
}

const defaultEntries = 100

// listAudit answers GET /v1/audit.
func (a *API) listAudit(_ http.ResponseWriter, r *http.Request) (any, error) {
	n := defaultEntries
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > fleet.MostEntries {
			return nil, fmt.Errorf("n must be 1 to %d", fleet.MostEntries)
		}
	}
	return a.o.Audit.List(r.Context(), n), nil
}

// Bounds of the texts of a change, in bytes. They are kept for long, and sent to all nodes.
const (
	mostReason = 1000
	mostAuthor = 100
)

// Change describes a change: its author and its reason.
type Change struct {
	Reason string `json:"reason,omitempty"`
	Author string `json:"author"`
}

// check returns an error if a text of the change is not valid.
func (c *Change) check() error {
	var faults []error
	if c.Author == "" {
		faults = append(faults, errors.New("author is missing: the audit log names one; give --author"))
	}
	for _, text := range []struct {
		name, text string
		most       int
	}{{"author", c.Author, mostAuthor}, {"reason", c.Reason, mostReason}} {
		switch {
		case len(text.text) > text.most:
			faults = append(faults, fmt.Errorf("%s has %d bytes; at most %d are kept: write a shorter one", text.name, len(text.text), text.most))
		case strings.ContainsFunc(text.text, unicode.IsControl):
			faults = append(faults, fmt.Errorf("%s has a control character, such as a line break; write it in one line", text.name))
		}
	}
	return errors.Join(faults...)
}
