// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/gateway"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/spelling"
	"github.com/sluicegate/sluice/server/admin"
)

// config is what the flags of serve say.
type config struct {
	listen       string
	upstream     string // empty: the sample app
	upstreamHost bool
	limits       []sluice.Limit
	by           []string
	key          httplimit.Key
	trusted      []netip.Prefix
	admin        string // empty: off
	adminHosts   []string
	fields       httplimit.Fields
	state        string // empty: none
	shared       sharedConfig
	drain        time.Duration

	now func() time.Time // of the store; nil is the system's clock
}

// errHelp is returned where the flags ask for help.
var errHelp = flag.ErrHelp

// parser reads the flags of serve and keeps every fault.
type parser struct {
	config
	adminPublic      bool
	upstreamHostPort string
	seen             map[string]bool
	faults           []error
}

func (p *parser) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

// parseServe reads the flags of serve. The error joins all faults, one a line,
// or is errHelp.
func parseServe(args []string) (config, error) {
	p := &parser{seen: make(map[string]bool)}
	p.listen, p.admin, p.drain = "127.0.0.1:8080", "127.0.0.1:9090", 30*time.Second
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	p.define(fs)
	if err := p.read(fs, args); err != nil {
		return config{}, err
	}
	p.finish()
	return p.config, errors.Join(p.faults...)
}

// define declares the flags. What is wrong with a value is kept, not returned,
// so that the flags behind it are read too.
func (p *parser) define(fs *flag.FlagSet) {
	once := func(name string, set func(string)) {
		fs.Func(name, "", func(s string) error {
			if p.seen[name] {
				p.fault("--%s: given twice; it has one value", name)
				return nil
			}
			p.seen[name] = true
			set(s)
			return nil
		})
	}
	repeatable := func(name string, set func(string)) {
		fs.Func(name, "", func(s string) error { set(s); return nil })
	}
	once("listen", func(s string) { p.listen = s; p.checkAddress("listen", s) })
	once("upstream", p.setUpstream)
	repeatable("limit", p.addLimit)
	repeatable("by", p.addBy)
	repeatable("trust", p.addTrusted)
	once("admin", func(s string) { p.admin = s })
	repeatable("admin-host", func(s string) {
		host, err := file.ParseAdminHost(s)
		if err != nil {
			p.fault("--admin-host: %w", err)
			return
		}
		p.adminHosts = append(p.adminHosts, host)
	})
	fs.BoolVar(&p.adminPublic, "admin-public", false, "")
	fs.BoolVar(&p.upstreamHost, "upstream-host", false, "")
	once("fields", p.setFields)
	once("state", func(s string) {
		if p.state = s; s == "" {
			p.fault("--state: names no file; write for example sluice.state")
		}
	})
	once("store", p.setStore)
	once("failure", p.setFailure)
	once("drain", func(s string) {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > 24*time.Hour {
			p.fault("--drain %q: is not a duration from 0s to 24h; write for example 30s", s)
			return
		}
		p.drain = d
	})
}

// read parses args, going on behind each fault.
func (p *parser) read(fs *flag.FlagSet, args []string) error {
	for len(args) > 0 {
		err := fs.Parse(args)
		rest := fs.Args()
		if len(rest) == len(args) && err != nil { // it has not got by this one
			rest = rest[1:]
		}
		name, unknown := "", false
		if err != nil {
			name, unknown = strings.CutPrefix(err.Error(), "flag provided but not defined: -")
		}
		switch {
		case errors.Is(err, flag.ErrHelp):
			return errHelp
		case unknown:
			p.fault("--%s: there is no such flag%s; see sluice serve --help", name, suggest(fs, name))
			if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
				rest = rest[1:] // most likely its value
			}
		case err != nil:
			p.fault("%w; see sluice serve --help", err)
		case len(rest) > 0:
			p.fault("%q: is not a flag; every value has its flag before it, in quotes if it has spaces; see sluice serve --help", rest[0])
			rest = rest[1:]
		}
		args = rest
	}
	return nil
}

// suggest returns the flag that may have been meant.
func suggest(fs *flag.FlagSet, name string) string {
	best := spelling.Nearest(name, func(yield func(string) bool) {
		more := true
		fs.VisitAll(func(f *flag.Flag) { more = more && yield(f.Name) })
	})
	if best == "" {
		return ""
	}
	return "; did you mean --" + best
}

// finish settles what depends on several flags.
func (p *parser) finish() {
	if p.upstream == "" {
		if len(p.limits) == 0 && len(p.faults) == 0 {
			p.addLimit("10/min sliding-log")
		}
		if len(p.by) == 0 {
			p.by = []string{"query.userId"}
		}
		p.fields = cmp.Or(p.fields, httplimit.Draft11|httplimit.XRateLimit)
	} else {
		if len(p.limits) == 0 && len(p.faults) == 0 {
			p.fault("--limit: there is none; write for example --limit 100/min")
		}
		if len(p.by) == 0 {
			p.by = []string{"ip"}
		}
		p.fields = cmp.Or(p.fields, httplimit.Draft11)
	}
	if p.upstreamHostPort == p.listen {
		p.fault("--upstream: is the address of --listen, so that requests would go in circles; give the service's own")
	}
	p.checkStore()
	p.checkNames()
	p.makeKey()
	p.checkAdmin()
}

// checkNames refuses limits that would count in the same state.
func (p *parser) checkNames() {
	names := make(map[string]sluice.Limit)
	for _, l := range p.limits {
		name := l.Filled().Name
		if first, taken := names[name]; taken {
			p.fault("--limit %q: has the name %q, as %q has; begin it with a name of its own, such as \"second: %v\"", l, name, first, l)
		}
		names[name] = l
	}
	if len(p.limits) > sluice.MaxLimits {
		p.fault("--limit: given %d times; there may be %d", len(p.limits), sluice.MaxLimits)
	}
}

func (p *parser) setUpstream(s string) {
	u, err := gateway.ParseUpstream(s)
	if err != nil {
		p.fault("--upstream: %w", err)
		return
	}
	p.upstream, p.upstreamHostPort = u.String(), u.Host
}

func (p *parser) addLimit(s string) {
	l, err := sluice.ParseLimit(s)
	if err != nil {
		if text, ok := errors.AsType[*sluice.TextError](err); ok {
			p.fault("--limit %q: column %d: %s", text.Text, text.Offset+1, text.Problem)
			return
		}
		for _, fault := range limitFaults(err) {
			p.fault("--limit %q: %s: %s", s, fault.Field, fault.Problem)
		}
		return
	}
	p.limits = append(p.limits, l)
}

// limitFaults returns the faults that a limit's validation has joined.
func limitFaults(err error) (all []*sluice.LimitError) {
	for err != nil {
		if one, ok := err.(*sluice.LimitError); ok { //nolint:errorlint // the tree is walked by hand: As finds only the first
			return []*sluice.LimitError{one}
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				all = append(all, limitFaults(e)...)
			}
			return all
		}
		err = errors.Unwrap(err)
	}
	return nil
}

func (p *parser) addTrusted(s string) {
	prefix, err := netip.ParsePrefix(s)
	if addr, bad := netip.ParseAddr(s); err != nil && bad == nil {
		prefix, err = addr.Prefix(addr.BitLen())
	}
	if err != nil {
		p.fault("--trust %q: is not a network; write for example 10.0.0.0/8 or 127.0.0.1", s)
		return
	}
	p.trusted = append(p.trusted, prefix.Masked())
}

var fieldNames = map[string]httplimit.Fields{
	"draft-11": httplimit.Draft11, "x-ratelimit": httplimit.XRateLimit,
	"x-ratelimit-epoch": httplimit.XRateLimitEpoch, "none": httplimit.NoFields,
}

func (p *parser) setFields(list string) {
	for name := range strings.SplitSeq(list, ",") {
		f, ok := fieldNames[strings.TrimSpace(name)]
		if !ok {
			p.fault("--fields %q: there is no %q; write some of %s", list, name, strings.Join(slices.Sorted(maps.Keys(fieldNames)), ", "))
			return
		}
		p.fields |= f
	}
	both := httplimit.XRateLimit | httplimit.XRateLimitEpoch
	if p.fields&httplimit.NoFields != 0 && p.fields != httplimit.NoFields || p.fields&both == both {
		p.fault("--fields %q: these exclude each other; none stands alone, and x-ratelimit is in seconds from now or since 1970", list)
	}
}

func (p *parser) checkAddress(name, s string) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		p.fault("--%s %q: is not a host and a port; write for example 127.0.0.1:8080", name, s)
	}
}

func (p *parser) checkAdmin() {
	if p.admin == "off" {
		p.admin = ""
		return
	}
	p.adminHosts = adminHosts(p.admin, p.adminHosts)
	at, err := admin.Resolve(p.admin)
	switch {
	case errors.Is(err, admin.ErrNotLoopback) && p.adminPublic:
	case errors.Is(err, admin.ErrNotLoopback):
		p.fault("--admin %q: %w; write for example 127.0.0.1:%d, or add --admin-public if they should", p.admin, err, at.Port)
	case err != nil:
		p.fault("--admin: %w", err)
	default:
		p.admin = at.String() // what was checked is what is listened on
	}
	if p.admin == p.listen && !strings.HasSuffix(p.listen, ":0") {
		p.fault("--admin %q: is the address of --listen too; give it another port", p.admin)
	}
}
