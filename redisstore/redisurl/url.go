// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redisurl reads the URL of the servers of a store of package redisstore. It opens no
// file and makes no connection.
package redisurl

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// URL describes the servers of a store. [Parse] describes its forms. Package rueidisstore
// opens a store by a URL. A program with another client sets the client's options from these
// fields. Goroutines may share a URL that none of them changes.
type URL struct {
	TLS        bool
	Addresses  []string // hosts and ports: of a server, of nodes of a Cluster, or of sentinels
	Cluster    bool
	Master     string // name of the master that the sentinels watch; empty without sentinels
	Database   int    // number of the database, from 0
	User       string
	Password   string
	Parameters map[string]string // of the query
	Timeout    time.Duration     // the longest time of a decision; zero without the parameter

	scheme   string
	variable string // holds the URL, if it has not been read yet
}

// Names of the environment variables for user and password that [ParseLine] reads.
const (
	UserVariable     = "SLUICE_STORE_USER"
	PasswordVariable = "SLUICE_STORE_PASSWORD" //nolint:gosec // the name of a variable
)

// topology is the way in which the servers belong together.
type topology uint8

const (
	singleServer topology = iota
	sentinels
	clusterNodes
)

// schemes are the schemes of a URL.
var schemes = map[string]struct {
	topology topology
	tls      bool
	port     string
}{
	"redis": {singleServer, false, "6379"}, "rediss": {singleServer, true, "6379"},
	"redis-sentinel": {sentinels, false, "26379"}, "rediss-sentinel": {sentinels, true, "26379"},
	"redis-cluster": {clusterNodes, false, "6379"}, "rediss-cluster": {clusterNodes, true, "6379"},
}

var parameters = []string{
	"ca_file", "cert_file", "key_file", "password_file", "prefix", "secret_file",
	"sentinel_password_file", "sentinel_user", "timeout",
}

// Bounds of the parameter timeout.
const (
	leastTimeout = time.Millisecond
	mostTimeout  = time.Second
)

const (
	longestLine     = 4096
	longestMaster   = 256
	longestVariable = 256
	longestPrefix   = 256
	mostAddresses   = 64
	mostDatabases   = 1 << 20
)

// byVariable begins a line that names the variable of the URL.
const byVariable = "env:"

// Parse reads a URL of one of these forms:
//
//	redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE]
//	redis-sentinel://[[USER][:PASSWORD]@]HOST[:PORT],…/MASTER[/DATABASE]
//	redis-cluster://[[USER][:PASSWORD]@]HOST[:PORT],…
//
// and the same with rediss, rediss-sentinel and rediss-cluster for TLS. Special bytes in user
// and password are escaped as %XX. The query may hold these parameters:
//
//	password_file=FILE            the user's password
//	ca_file=FILE                  the authorities of the server's certificate
//	cert_file=FILE, key_file=FILE this client's own certificate
//	sentinel_user=NAME            the user at the sentinels
//	sentinel_password_file=FILE   the password there
//	prefix=TEXT                   begins the name of every key
//	secret_file=FILE              names keys by keyed hashes, under this secret
//	timeout=DURATION              the longest time of a decision, 1ms to 1s
//
// The error joins all faults. It names their
// places and quotes nothing: a password that is not escaped may be in any part of a URL.
func Parse(url string) (*URL, error) { return parse(url, true, nil) }

// ParseLine is [Parse] for a line that others can see, such as a flag: it refuses a
// password, which process lists, shell histories and logs would show. If getenv is not nil,
// it returns the values of the environment variables [UserVariable] and [PasswordVariable].
// A line such as env:REDIS_URL names a variable with a URL, which may hold a password and end in
// a line break. If getenv is nil such a line is only checked, and the result has no servers.
func ParseLine(line string, getenv func(string) string) (*URL, error) {
	if name, ok := strings.CutPrefix(line, byVariable); ok {
		return parseVariable(name, getenv)
	}
	return parse(line, false, getenv)
}

func parseVariable(name string, getenv func(string) string) (*URL, error) {
	if !isVariable(name) {
		return nil, errors.New("the text after env: is not the name of a variable; use for example env:REDIS_URL")
	}
	if getenv == nil {
		return &URL{variable: name}, nil
	}
	line := strings.TrimRight(getenv(name), "\r\n") // a secret made of a file ends as the file does
	if line == "" {
		return nil, fmt.Errorf("the variable %s is not set; set it to the store's URL, for example redis://127.0.0.1:6379", name)
	}
	u, err := parse(line, true, getenv)
	if err != nil {
		return nil, fmt.Errorf("the variable %s: %w", name, err)
	}
	return u, nil
}

func isVariable(name string) bool {
	return name != "" && len(name) <= longestVariable && (name[0] < '0' || name[0] > '9') && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// parse reads a URL. secret allows a password.
func parse(line string, secret bool, getenv func(string) string) (*URL, error) {
	scheme, rest, found := strings.Cut(line, "://")
	s, known := schemes[scheme]
	switch {
	case len(line) > longestLine:
		return nil, fmt.Errorf("the URL has %d bytes; use at most %d", len(line), longestLine)
	case !found || !known:
		return nil, fmt.Errorf("the URL must begin with %s:// and the address of a server; use for example redis://127.0.0.1:6379",
			strings.Join(slices.Sorted(maps.Keys(schemes)), "://, "))
	case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("the URL holds a control character; take it out")
	}
	p := &parser{URL: URL{Cluster: s.topology == clusterNodes, TLS: s.tls, scheme: scheme, Parameters: make(map[string]string)}, topology: s.topology, secret: secret}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	if at >= 0 {
		p.setUser(authority[:at])
		authority = authority[at+1:]
	}
	p.setAddresses(authority, s.port)
	p.setPath(path)
	p.setQuery(query)
	p.setEnvironment(getenv)
	if len(p.faults) > 0 && secret && at < 0 && strings.Contains(path+query, "@") {
		p.fault("it cannot be parsed; if the password has / or ?, use %%2F and %%3F")
	}
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	return &p.URL, nil
}

// parser reads a URL and collects its faults.
type parser struct {
	URL
	topology topology
	secret   bool // the URL may hold a password
	faults   []error
}

func (p *parser) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

func (p *parser) setUser(info string) {
	name, password, found := strings.Cut(info, ":")
	if found && !p.secret {
		p.fault("the URL has a password, which process lists and logs would show; put it into the variable %s, or into a file and add ?password_file=FILE", PasswordVariable)
		return
	}
	var err, err2 error
	p.User, err = url.PathUnescape(name)
	if p.Password, err2 = url.PathUnescape(password); err != nil || err2 != nil {
		p.fault("the user's name or the password holds a %% that begins no escape; use %%25 for it")
	}
}

// setEnvironment sets user and password from the environment if the URL has none.
func (p *parser) setEnvironment(getenv func(string) string) {
	from := "the URL"
	if getenv != nil {
		if p.User == "" {
			p.User = getenv(UserVariable)
		}
		switch other := getenv(PasswordVariable); {
		case other != "" && p.Password != "":
			p.fault("a password is in the URL and in %s; remove one", PasswordVariable)
		case other != "":
			p.Password, from = other, PasswordVariable
		}
	}
	if p.Password != "" && p.Parameters["password_file"] != "" {
		p.fault("a password is in %s and in password_file; remove one", from)
	}
}

func (p *parser) setAddresses(list, port string) {
	all := strings.Split(list, ",")
	if p.topology == singleServer && len(all) > 1 || len(all) > mostAddresses {
		p.fault("%d servers: redis:// has one; use redis-cluster:// or redis-sentinel:// with up to %d servers", len(all), mostAddresses)
		return
	}
	for i, a := range all {
		host, given := a, port
		if strings.Contains(strings.TrimPrefix(a[strings.LastIndexByte(a, ']')+1:], "]"), ":") {
			var err error
			if host, given, err = net.SplitHostPort(a); err != nil {
				p.fault("address %d is not a host and a port; use for example 127.0.0.1:%s", i+1, port)
				continue
			}
		}
		if inner, ok := strings.CutPrefix(host, "["); ok {
			host = strings.TrimSuffix(inner, "]")
		}
		_, notIP := netip.ParseAddr(host)
		if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 || host == "" || notIP != nil && strings.ContainsAny(host, " @%#[]:") {
			p.fault("address %d is not a host and a port; use for example 127.0.0.1:%s", i+1, port)
			continue
		}
		p.Addresses = append(p.Addresses, net.JoinHostPort(host, given))
	}
}

func (p *parser) setPath(path string) {
	if p.topology == sentinels {
		name, db, _ := strings.Cut(path, "/")
		master, err := url.PathUnescape(name)
		if p.Master, path = master, db; err != nil || master == "" || len(master) > longestMaster {
			p.fault("sentinels need the name of the master, of up to %d bytes; use for example redis-sentinel://127.0.0.1:26379/mymaster", longestMaster)
		}
	}
	if path == "" {
		return
	}
	n, err := strconv.ParseUint(path, 10, 32)
	switch {
	case err != nil || n >= mostDatabases:
		p.fault("the text after the last slash is not the number of a database; use for example /0, or leave it out")
	case p.topology == clusterNodes && n != 0:
		p.fault("a Cluster has database 0 only; leave out /%d", n)
	}
	p.Database = int(n)
}

func (p *parser) setQuery(query string) {
	for i, pair := range strings.Split(query, "&") {
		if pair == "" {
			continue
		}
		name, raw, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(raw)
		_, twice := p.Parameters[name]
		switch {
		case !slices.Contains(parameters, name):
			p.fault("parameter %d is none of %s", i+1, strings.Join(parameters, ", "))
		case err != nil || value == "":
			p.fault("%s: has no valid value; use for example %s=FILE", name, name)
		case twice:
			p.fault("%s: is given twice; it has one value", name)
		default:
			p.Parameters[name] = value
		}
	}
	if text := p.Parameters["timeout"]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < leastTimeout || d > mostTimeout {
			p.fault("timeout: is no duration from %v to %v; use for example timeout=250ms", leastTimeout, mostTimeout)
		}
		p.Timeout = d
	}
	if CheckPrefix(p.Parameters["prefix"]) != nil {
		p.fault("prefix: is too long or has braces; use at most %d bytes and no braces, which have a meaning for a Cluster", longestPrefix)
	}
	has := func(name string) bool { return p.Parameters[name] != "" }
	if !p.TLS && (has("ca_file") || has("cert_file") || has("key_file")) {
		p.fault("ca_file, cert_file and key_file are about TLS; begin the URL with %s://", strings.Replace(p.scheme, "redis", "rediss", 1))
	}
	if has("cert_file") != has("key_file") {
		p.fault("cert_file and key_file belong together; set both")
	}
	if p.topology != sentinels && (has("sentinel_user") || has("sentinel_password_file")) {
		p.fault("sentinel_user and sentinel_password_file are for redis-sentinel://; leave them out")
	}
}

// CheckPrefix returns an error if keys may not begin with a prefix.
func CheckPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") || len(prefix) > longestPrefix {
		return fmt.Errorf("prefix %.40q is too long or has braces; use at most %d bytes and no braces, which have a meaning for a Cluster", prefix, longestPrefix)
	}
	return nil
}

// String returns the URL without user and parameters, which may be shown.
func (u *URL) String() string {
	if u.variable != "" {
		return byVariable + u.variable
	}
	s := u.scheme + "://" + strings.Join(u.Addresses, ",")
	if u.Master != "" {
		s += "/" + url.PathEscape(u.Master)
	}
	if u.Database != 0 {
		s += "/" + strconv.Itoa(u.Database)
	}
	return s
}

// Full returns the whole URL, with user and password, for [Parse].
func (u *URL) Full() string {
	s := u.String()
	if u.User != "" || u.Password != "" {
		scheme, rest, _ := strings.Cut(s, "://")
		s = scheme + "://" + url.UserPassword(u.User, u.Password).String() + "@" + rest
	}
	if len(u.Parameters) == 0 {
		return s
	}
	query := make(url.Values)
	for name, value := range u.Parameters {
		query.Set(name, value)
	}
	return s + "?" + query.Encode()
}
