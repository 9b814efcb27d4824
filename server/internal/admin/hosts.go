// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
)

// A web page can make the name of its own host point at any address, and then
// read the answers from there. The browser sends that name in Host. So a request by an
// address is answered, and a request by a name only if the operator has listed the name.

// misdirected returns an error if the host of a request is a name that is neither localhost
// nor one of hosts.
func misdirected(r *http.Request, hosts []string) error {
	if r.Host == "" {
		return nil // HTTP/1.0 may leave Host out, but no browser does
	}
	name, addr, ok := hostOf(r.Host)
	if ok && (addr.IsValid() || name == "localhost" || slices.Contains(hosts, name)) {
		return nil
	}
	return fmt.Errorf("%q is not a host name of the admin address; list it under admin.hosts, or by --admin-host without a file", r.Host)
}

// hostOf returns the address of a Host field, or its name in the form in which names are
// compared. ok is false if the text after a colon is no port.
func hostOf(field string) (name string, addr netip.Addr, ok bool) {
	name = field
	if host, port, err := net.SplitHostPort(field); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "" {
			return "", addr, false
		}
		name = host
	} else if inner, bracketed := strings.CutPrefix(name, "["); bracketed {
		name = strings.TrimSuffix(inner, "]")
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return "", addr, true
	}
	return wire.Host(name), addr, !strings.Contains(name, ":")
}

// answering lets through requests that are not misdirected.
func answering(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := misdirected(r, hosts); err != nil {
			text(w, http.StatusMisdirectedRequest, err.Error()+"\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errNotLocal is the answer to other callers of an API without a token.
var errNotLocal = errors.New("only callers on this machine are answered, at a loopback address or localhost, not through a proxy and not from pages of other sites; give the program a token for others")

// local reports whether a request comes from this machine and was meant for it. A request
// through a proxy on this machine may come from anywhere, so it is not local.
func local(r *http.Request) bool {
	if forwarded(r) || ofOtherSite(r) {
		return false
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return false
	}
	name, addr, ok := hostOf(r.Host)
	return ok && (name == "localhost" || addr.Unmap().IsLoopback())
}

// forwarded reports whether the request says that a proxy has passed it on.
func forwarded(r *http.Request) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}, func(name string) bool { return len(r.Header[name]) > 0 })
}

// ofOtherSite reports whether a browser has sent the request for a page of another
// origin. Such a page cannot read the answer, but it takes the place of a reader and
// learns how long the answer takes. A link that a person follows is no such request.
func ofOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Dest") != "document"
	case "":
		origin := r.Header.Get("Origin")
		return origin != "" && !sameOrigin(origin, r)
	}
	return false
}
