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
// read what answers there. It needs a name for that, which its browser sends in
// Host. So a request by an address is answered, and one by a name only if the
// operator knows it.

// misdirected says why a request is not answered: its host is a name that is
// neither localhost nor one of hosts.
func misdirected(r *http.Request, hosts []string) error {
	if r.Host == "" {
		return nil // as HTTP/1.0 may leave it, but no browser
	}
	name, addr, ok := hostOf(r.Host)
	if ok && (addr.IsValid() || name == "localhost" || slices.Contains(hosts, name)) {
		return nil
	}
	return fmt.Errorf("%q is not a host name of the admin address; list it under admin.hosts, or by --admin-host without a file", r.Host)
}

// hostOf returns the address of a Host field, or its name as it is compared. It
// is not ok if what is behind a colon is no port.
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

// errNotLocal is the answer to callers of an API without a token.
var errNotLocal = errors.New("only callers on this machine are answered, at a loopback address or localhost, not through a proxy and not from pages of other sites; give the program a token for others")

// local reports whether a request comes from this machine and was meant for it. One
// that a proxy here has passed on may come from anywhere.
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

// forwarded reports whether a proxy has passed the request on, and says so.
func forwarded(r *http.Request) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}, func(name string) bool { return len(r.Header[name]) > 0 })
}

// ofOtherSite reports whether a browser has sent the request for a page of another
// origin: that may not read the answer, but takes a place of a reader, and learns how
// long it takes. A person that follows a link may.
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
