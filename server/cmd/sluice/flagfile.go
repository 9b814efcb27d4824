// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/profile"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/serve"
)

// fromFlags is the file name of a configuration made of flags.
const fromFlags = "the flags"

// page is a configuration file that is made of flags.
type page struct {
	text  strings.Builder
	heads []string // parent keys to write before the next line
	lines []pageLine
}

// pageLine is the flag of a line, and the place of its value in the line.
type pageLine struct {
	flag   string
	column int
}

// put writes the key of a flag: a single value on the same line, several values on the lines
// below. Without a value it writes nothing.
func (p *page) put(flag, key string, values ...string) {
	if len(values) == 0 {
		return
	}
	for _, head := range p.heads {
		p.line(flag, head)
	}
	p.heads = nil
	if len(values) == 1 {
		p.line(flag, key, values[0])
		return
	}
	p.line(flag, key)
	indent := key[:len(key)-len(strings.TrimLeft(key, " "))]
	for _, v := range values {
		p.line(flag, indent+"  -", v)
	}
}

func (p *page) line(flag, key string, value ...string) {
	column := len(key) + 2
	p.text.WriteString(key)
	for _, v := range value {
		quoted := scalar(v)
		if quoted != v {
			column++
		}
		p.text.WriteString(" " + quoted)
	}
	p.text.WriteByte('\n')
	p.lines = append(p.lines, pageLine{flag, column})
}

// plain matches the texts that YAML reads without quotes.
var plain = regexp.MustCompile(`^[\w/.]([\w/.+%@-]|[ ,:=?&][\w/.])*$`)

// scalar returns a text as a YAML scalar.
func scalar(s string) string {
	if plain.MatchString(s) && !strings.EqualFold(s, "null") {
		return s
	}
	return strconv.Quote(s) // YAML has the same escapes
}

// parse reads the flags as a configuration file with the same settings.
func (f *serveFlags) parse() *config.Config {
	p := f.page()
	f.file = p.text.String()
	c, err := config.Parse(fromFlags, []byte(f.file))
	faults, ok := errors.AsType[config.Faults](err)
	if err != nil && !ok {
		f.faults = append(f.faults, err)
	}
	reported := make(map[string]bool) // rules for requests and for bytes have the same key
	for _, fault := range faults {
		line := p.lines[min(max(fault.Line, 1), len(p.lines))-1]
		if strings.HasSuffix(fault.Problem, "; set tokens") || strings.HasSuffix(fault.Problem, "client_ca: FILE}") { // no flag sets these
			fault.Problem += " in a file, and use --config FILE"
		}
		text := "--" + line.flag + ": " + fault.Problem
		if strings.HasPrefix(fault.Problem, line.flag+" ") {
			text = "--" + fault.Problem
		}
		if column := fault.Column - line.column; column > 0 {
			text = fmt.Sprintf("%s (column %d)", text, column+1)
		}
		if !reported[text] || line.flag == "limit" {
			reported[text] = true
			f.fault("%s", text)
		}
	}
	return c
}

// page returns the file with the settings of the flags. Missing flags have their
// defaults in it.
func (f *serveFlags) page() *page {
	p := new(page)
	for _, flag := range serveFlagTable() {
		name := flag.Name
		for i, v := range f.Values[name] {
			if !utf8.ValidString(v) {
				f.fault("--%s %q: is not UTF-8; use UTF-8", name, v)
				f.Values[name][i] = strings.ToValidUTF8(v, "?")
			}
		}
	}
	f.fill()
	p.line("", "# The flags of sluice serve as a file for --config.")
	if f.Given("drain") {
		p.line("drain", "# Use it with --drain "+f.drain.String()+".")
	}
	for _, name := range []string{"log-format", "log-level"} {
		if f.Given(name) {
			p.line(name, "# Use it with --"+name+" "+f.One(name)+".")
		}
	}
	p.put("listen", "listen:", f.One("listen"))
	f.admin(p)
	if f.Given("upstream") {
		p.heads = []string{"upstream:"}
		p.put("upstream", "  url:", f.One("upstream"))
		p.put("upstream-host", "  upstream_host:", f.on("upstream-host")...)
	}
	p.heads = []string{"client_ip:"}
	p.put("trust", "  trusted:", f.networks()...)
	p.heads = nil
	p.put("fields", "fields:", strings.Split(strings.ReplaceAll(f.One("fields"), " ", ""), ",")...)
	p.put("decision-log", "decision_log:", f.Values["decision-log"]...)
	p.put("access-log", "access_log:", f.Values["access-log"]...)
	f.store(p)
	f.rules(p)
	return p
}

// on returns the value of a key for a switch.
func (f *serveFlags) on(name string) []string {
	if !f.Given(name) {
		return nil
	}
	return []string{"true"}
}

// fill sets the defaults of missing flags.
func (f *serveFlags) fill() {
	byDefault := func(name string, values ...string) {
		if !f.Given(name) {
			f.Values[name] = values
		}
	}
	for _, text := range f.Values["limit"] {
		if p, ok := profile.Get(strings.ToLower(text)); ok && !f.Given("like") {
			f.fault("--limit %q: is a platform; use --like %s", text, p.Name)
			f.Values["limit"] = []string{"1/s"} // any limit: nothing is served
			break
		}
	}
	switch {
	case f.Given("like") && f.Given("limit"):
		f.fault("--limit and --like exclude each other; leave one out, or write both into a file, as limits: [{like: %s}, %s]", f.One("like"), f.One("limit"))
		delete(f.Values, "limit")
	case !f.Given("limit") && !f.Given("like") && f.Given("upstream"):
		f.fault("--limit: there is none; use for example --limit 100/min, or --like shopify-rest")
	}
	if f.Given("upstream") {
		byDefault("by", "ip")
		byDefault("fields", "draft-11")
	}
	if !f.Given("like") {
		byDefault("limit", "10/min sliding-log")
	}
	byDefault("name", "gateway")
	byDefault("by", "query.userId")
	byDefault("fields", "draft-11,x-ratelimit")
	byDefault("listen", serve.DefaultListen)
	byDefault("admin", serve.DefaultAdmin)
}

// admin writes the admin address. It resolves a host name, so that the program listens on the
// address that was checked.
func (f *serveFlags) admin(p *page) {
	at, hosts, public := f.One("admin"), f.Values["admin-host"], []string(nil)
	if at != "off" {
		addr, err := admin.Resolve(at)
		switch {
		case errors.Is(err, admin.ErrNotLoopback) && f.Given("admin-public"):
			public = f.on("admin-public")
		case errors.Is(err, admin.ErrNotLoopback):
			f.fault("--admin %q: %w; use for example 127.0.0.1:%d, or add --admin-public if they should", at, err, addr.Port)
			at = serve.DefaultAdmin
		case err != nil:
			f.fault("--admin: %w", err)
			at = serve.DefaultAdmin
		default:
			host, _, _ := net.SplitHostPort(at) // Resolve has split it without error
			if name, err := config.ParseAdminHost(host); err == nil {
				hosts = append(hosts, name)
			}
			at = addr.String()
		}
	}
	p.heads = []string{"admin:"}
	p.put("admin", "  address:", at)
	p.put("admin-public", "  public:", public...)
	p.put("admin-host", "  hosts:", hosts...)
	p.put("overrides", "  overrides_file:", f.Values["overrides"]...)
	p.put("audit", "  audit_file:", f.Values["audit"]...)
}

// networks returns the networks of --trust, without the bits after the prefix.
func (f *serveFlags) networks() []string {
	var all []string
	for _, s := range f.Values["trust"] {
		if n, err := netip.ParsePrefix(s); err == nil {
			s = n.Masked().String()
		}
		all = append(all, s)
	}
	return all
}

// store writes the settings of the store.
func (f *serveFlags) store(p *page) {
	if f.Given("store") && f.Given("state") {
		f.fault("--state: is for the store in memory, and excludes --store; leave one out")
	}
	if f.Given("failure") && !f.Given("store") {
		f.fault("--failure: needs a shared store; add --store redis://HOST")
	}
	p.heads = []string{"store:", "  redis:"}
	p.put("store", "    url:", f.Values["store"]...)
	if !f.Given("store") {
		p.heads = []string{"store:", "  memory:"}
		p.put("state", "    state:", f.Values["state"]...)
	}
}

// rules writes one rule for each unit of the limits, all with the same key: a request and its
// bytes cost different amounts. Stores keep states by the names of the rules.
func (f *serveFlags) rules(p *page) {
	var requests, bytes []string
	for _, text := range f.Values["limit"] {
		if l, err := sluice.ParseLimit(text); err == nil && l.Unit == sluice.Bytes {
			bytes = append(bytes, text)
		} else {
			requests = append(requests, text)
		}
	}
	p.heads = []string{"rules:"}
	rule := func(name, flag, key string, values []string, cost ...string) {
		if len(values) == 0 {
			return
		}
		p.put("name", "  - name:", name)
		p.put(flag, "    cost:", cost...)
		p.put("by", "    by:", f.Values["by"]...)
		p.put(flag, key, values...)
		p.put("block", "    block:", f.Values["block"]...)
		p.put("failure", "    failure:", f.Values["failure"]...)
	}
	name := f.One("name")
	if f.Given("like") {
		rule(name, "like", "    like:", []string{f.One("like")})
	}
	rule(name, "limit", "    limits:", requests)
	rule(name+".bytes", "limit", "    limits:", bytes, "response-bytes")
}
