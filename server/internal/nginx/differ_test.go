// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/nginx"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// stanza is a directive of a generated configuration.
type stanza struct {
	head  string
	list  []*stanza // of a block
	block bool
	file  string // file of the list, if the stanza includes it

	id     string // of a server or location
	inFile string
	line   int
	last   int // line of the block's end
	outer  *stanza
}

func line(format string, args ...any) *stanza { return &stanza{head: fmt.Sprintf(format, args...)} }
func block(head string, list ...*stanza) *stanza {
	return &stanza{head: head, list: list, block: true}
}

// asked is a request.
type asked struct {
	port               int // 0 or 1
	method, path, host string
	from               string
	fields             []string // lines of the header
	held               bool     // stays with the upstream until the end
	odd                bool     // has a key that servers read differently
}

// site is a configuration with its requests.
type site struct {
	http     *stanza
	requests []asked
}

// render returns the files of a site. With traces nginx logs the servers and locations that a
// request passed.
func (s *site) render(traces bool) map[string]string {
	files := map[string]*strings.Builder{}
	lines := map[string]int{}
	ids := 0
	put := func(file, text string) {
		if files[file] == nil {
			files[file] = &strings.Builder{}
		}
		lines[file]++
		files[file].WriteString(text + "\n")
	}
	var write func(file string, outer *stanza, list []*stanza)
	write = func(file string, outer *stanza, list []*stanza) {
		for _, st := range list {
			st.inFile, st.line, st.outer = file, lines[file]+1, outer
			switch {
			case st.file != "":
				put(file, st.head+";")
				st.outer = outer
				write(st.file, outer, st.list)
			case st.block:
				text := st.head + " {"
				if st.head == "server" || strings.HasPrefix(st.head, "location") {
					ids++
					st.id = fmt.Sprintf("I%dI", ids)
					if traces {
						text += " set $trail ${trail}" + st.id + ";"
					}
				}
				put(file, text)
				write(file, st, st.list)
				put(file, "}")
			default:
				put(file, st.head+";")
			}
			st.last = lines[file]
		}
	}
	for _, text := range []string{"daemon off", "master_process off", "error_log stderr crit", "pid DIR/pid"} {
		put("nginx.conf", text+";")
	}
	put("nginx.conf", "events { worker_connections 128; }")
	write("nginx.conf", nil, []*stanza{s.http})
	texts := map[string]string{}
	for name, b := range files {
		texts[name] = b.String()
	}
	return texts
}

// base returns the beginning of each http block.
func base() []*stanza {
	return []*stanza{
		line(`log_format verdicts "$http_x_id|$limit_req_status|$limit_conn_status|$trail|"`), line("access_log DIR/log verdicts"),
		line("client_body_temp_path DIR/a"), line("proxy_temp_path DIR/b"), line("fastcgi_temp_path DIR/c"),
		line("uwsgi_temp_path DIR/d"), line("scgi_temp_path DIR/e"), line("root DIR/root"), line("server_names_hash_bucket_size 128"),
	}
}

// answer is a server's answer to a request.
type answer struct {
	status   int // 0: the connection was closed without an answer
	denied   bool
	upstream string // the one that got the request
	trail    string
}

// stage is the environment of both servers: two ports, upstreams and a folder.
type stage struct {
	dir       string
	program   string
	ports     [2]int
	upstreams [2]*httptest.Server
	mu        sync.Mutex
	release   chan struct{}
	arrived   chan struct{}
}

func newStage(t *testing.T) *stage {
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("nginx is not installed; install it with: apt-get install nginx")
	}
	g := &stage{dir: t.TempDir(), program: program}
	for _, name := range []string{"dir/file", "index.html", "a/index.html"} {
		name = filepath.Join(g.dir, "root", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("ok"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range g.ports {
		g.ports[i] = testkit.FreePort(t)
		g.upstreams[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Upstream", strconv.Itoa(i))
			if r.Header.Get("X-Held") == "" {
				return
			}
			g.mu.Lock()
			arrived, release := g.arrived, g.release
			g.mu.Unlock()
			arrived <- struct{}{}
			<-release
		}))
		t.Cleanup(g.upstreams[i].Close)
	}
	return g
}

func (g *stage) fill(text string) string {
	return strings.NewReplacer("DIR", g.dir, "PORT0", strconv.Itoa(g.ports[0]), "PORT1", strconv.Itoa(g.ports[1]),
		"UP0", g.upstreams[0].Listener.Addr().String(), "UP1", g.upstreams[1].Listener.Addr().String()).Replace(text)
}

// ask sends all requests, one after the other.
func (g *stage) ask(requests []asked) ([]answer, error) {
	g.mu.Lock()
	g.arrived, g.release = make(chan struct{}), make(chan struct{})
	g.mu.Unlock()
	answers := make([]answer, len(requests))
	faults := make([]error, len(requests))
	var running sync.WaitGroup
	for i, r := range requests {
		done := make(chan struct{})
		running.Go(func() {
			defer close(done)
			answers[i], faults[i] = g.send(i, r)
		})
		select {
		case <-done:
		case <-g.arrived:
		}
	}
	close(g.release)
	running.Wait()
	return answers, errors.Join(faults...)
}

// send sends a request over a new connection and waits for its end: then the server is done
// with it.
func (g *stage) send(i int, r asked) (answer, error) {
	from := &net.TCPAddr{IP: net.ParseIP(r.from)}
	conn, err := (&net.Dialer{LocalAddr: from, Timeout: testkit.Ceiling}).Dial("tcp", "127.0.0.1:"+strconv.Itoa(g.ports[r.port]))
	if err != nil {
		return answer{}, err
	}
	defer conn.Close() //nolint:errcheck // it was read to its end
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nX-Id: %d\r\n", r.method, r.path, r.host, i)
	for _, f := range r.fields {
		text += f + "\r\n"
	}
	if r.held {
		text += "X-Held: yes\r\n"
	}
	if err := conn.SetDeadline(time.Now().Add(testkit.Ceiling)); err != nil {
		return answer{}, err
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		return answer{}, err
	}
	data, err := io.ReadAll(conn)
	if err != nil || len(data) == 0 {
		return answer{denied: true}, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), &http.Request{Method: r.method})
	if err != nil {
		return answer{}, fmt.Errorf("%q: %w", data, err)
	}
	a := answer{status: resp.StatusCode, upstream: resp.Header.Get("X-Upstream")}
	a.denied = a.upstream == "" && !bytes.Contains(data, []byte("nothing is served here"))
	return a, resp.Body.Close()
}

// nginx runs a site in nginx.
func (g *stage) nginx(s *site, requests []asked) ([]answer, error) {
	if err := os.RemoveAll(filepath.Join(g.dir, "conf.d")); err != nil { // files of the previous site
		return nil, err
	}
	for name, text := range s.render(true) {
		name = filepath.Join(g.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(g.fill(text)), 0o644)); err != nil {
			return nil, err
		}
	}
	log := filepath.Join(g.dir, "log")
	if err := os.WriteFile(log, nil, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(g.program, "-p", g.dir, "-c", filepath.Join(g.dir, "nginx.conf"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	end := time.After(testkit.Ceiling)
	for up := false; !up; {
		select {
		case <-end:
			return nil, errors.Join(errors.New("nginx does not listen"), cmd.Process.Kill())
		case err := <-ended:
			return nil, fmt.Errorf("nginx does not start: %w: %s", err, stderr.String())
		default:
		}
		up = true
		for _, r := range requests {
			conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(g.ports[r.port]))
			if err == nil {
				err = conn.Close()
			}
			if err != nil {
				up = false
				time.Sleep(time.Millisecond)
				break
			}
		}
	}
	answers, err := g.ask(requests)
	// nginx logs a request before its connection ends.
	killed := cmd.Process.Kill()
	if fault := <-ended; fault == nil || fault.Error() != "signal: killed" {
		return nil, fmt.Errorf("nginx ended by itself: %w: %s", errors.Join(fault, killed, err), stderr.String())
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	for text := range strings.Lines(string(data)) {
		parts := strings.Split(text, "|")
		if i, err := strconv.Atoi(parts[0]); err == nil {
			answers[i].denied = parts[1] == "REJECTED" || parts[2] == "REJECTED"
			answers[i].trail = parts[3]
		}
	}
	return answers, nil
}

// convert converts a site without traces.
func (g *stage) convert(s *site) (yaml string, notes []nginx.Note, err error) {
	texts := s.render(false)
	files := []nginx.File{{Name: "nginx.conf", Text: g.fill(texts["nginx.conf"])}}
	for name, text := range texts {
		if name != "nginx.conf" {
			files = append(files, nginx.File{Name: name, Text: g.fill(text)})
		}
	}
	slices.SortFunc(files[1:], func(a, b nginx.File) int { return strings.Compare(a.Name, b.Name) })
	data, notes, err := nginx.Convert(files, check)
	if errors.Is(err, nginx.ErrNoLimits) {
		data, err = []byte(fmt.Sprintf("listen: [%q, %q]\nrules: [{name: none, limits: 1000000/s}]\n", g.fill(":PORT0"), g.fill(":PORT1"))), nil
	}
	yaml = string(data)
	if !strings.Contains(yaml, "\nupstream:") {
		yaml += g.fill("upstream: http://UP0\n")
	}
	return yaml + "admin: off\n", notes, err
}

// sluice runs the conversion of a site in sluice.
func (g *stage) sluice(t *testing.T, yaml string, requests []asked) ([]answer, error) {
	c, err := config.Parse("converted.yaml", []byte(yaml))
	if err != nil {
		return nil, fmt.Errorf("%w in\n%s", err, yaml)
	}
	gateway := servetest.Serve(t, c)
	answers, err := g.ask(requests)
	gateway.End(t)
	for _, port := range g.ports { // nginx would wait half a second for them
		servetest.UntilRefused(t, "127.0.0.1:"+strconv.Itoa(port))
	}
	return answers, err
}

// excused returns the servers and locations that notes name; odd are those where a note
// excuses only odd requests.
func (s *site) excused(notes []nginx.Note) (ids, bare, odd map[string]string, hosts map[string][]string) {
	ids, bare, odd, hosts = map[string]string{}, map[string]string{}, map[string]string{}, map[string][]string{}
	var all []*stanza // servers and locations
	var visit func(list []*stanza)
	visit = func(list []*stanza) {
		for _, st := range list {
			if st.id != "" {
				all = append(all, st)
			}
			visit(st.list)
		}
	}
	visit(s.http.list)
	effective := func(st *stanza, name string) (found []*stanza) { // directives of the block and its includes
		for ; st != nil; st = st.outer {
			var own func(list []*stanza)
			own = func(list []*stanza) {
				for _, d := range list {
					if d.file != "" {
						own(d.list)
					} else if strings.HasPrefix(d.head, name+" ") {
						found = append(found, d)
					}
				}
			}
			if own(st.list); len(found) > 0 {
				break
			}
		}
		return found
	}
	for _, n := range notes {
		if strings.Contains(n.Text, "upstream") || strings.Contains(n.Text, "is used nowhere") {
			continue // about the upstream, not about limits
		}
		at := func(d *stanza) bool { return d.inFile == n.File && d.line == n.Line }
		for _, st := range all {
			inside := st.inFile == n.File && st.line <= n.Line && n.Line <= st.last
			for _, other := range all { // the innermost counts
				if inside && other != st && other.inFile == n.File && st.line < other.line && other.line <= n.Line && n.Line <= other.last {
					inside = false
				}
			}
			limits := append(effective(st, "limit_req"), effective(st, "limit_conn")...)
			for o := st.outer; o != nil && o.id != "" && !strings.HasPrefix(n.Text, "limit_"); o = o.outer {
				// a note at a server's own line covers all of it
				inside = inside || o.head == "server" && at(o)
			}
			inherited := slices.ContainsFunc(limits, at)
			for _, name := range []string{"error_page", "add_header", "set_real_ip_from", "try_files", "rewrite", "return", "if"} {
				inherited = inherited || slices.ContainsFunc(effective(st, name), at)
			}
			// A server's rewrites precede its locations.
			for o := st.outer; o != nil; o = o.outer {
				if o.head == "server" {
					for _, name := range []string{"rewrite", "if"} {
						inherited = inherited || slices.ContainsFunc(effective(o, name), at)
					}
				}
			}
			zone := false
			for _, l := range limits {
				for _, z := range append(effective(s.http, "limit_req_zone"), effective(s.http, "limit_conn_zone")...) {
					_, name, _ := strings.Cut(z.head, "zone=")
					name, _, _ = strings.Cut(name, ":")
					zone = zone || at(z) && (strings.Contains(l.head+" ", "zone="+name+" ") || strings.HasPrefix(l.head, "limit_conn "+name+" "))
				}
			}
			switch {
			case !inside && !inherited && !zone:
			case strings.Contains(n.Text, "begins with these letters") && inside:
				bare[st.id] = n.Text
			case strings.Contains(n.Text, " that is sent twice"):
				odd[st.id] = n.Text
			case strings.Contains(n.Text, ": requests for hosts "):
				if st.head == "server" {
					_, host, _ := strings.Cut(n.Text, ": requests for hosts ")
					host, _, _ = strings.Cut(host, " at :")
					hosts[st.id] = append(hosts[st.id], host)
				}
			default:
				ids[st.id] = n.String()
				if slices.ContainsFunc(st.list, func(d *stanza) bool { return d.head == "internal" }) && st.outer.id != "" {
					ids[st.outer.id] = n.String() // nginx answers before the location writes a trace
				}
			}
		}
		if n.Line == 0 && n.Text != "" {
			for _, st := range all {
				ids[st.id] = n.String()
			}
		}
	}
	return ids, bare, odd, hosts
}

// names returns the names of all servers.
func (s *site) names() (names []string) {
	for _, text := range s.render(false) {
		for l := range strings.Lines(text) {
			if list, ok := strings.CutPrefix(l, "server_name "); ok {
				names = append(names, strings.Fields(strings.TrimRight(list, ";\n"))...)
			}
		}
	}
	return names
}

// result is the comparison of a site.
type result struct {
	asked, compared int
	excused         bool
	problem         string // "": both agree
	yaml            string
	notes           []nginx.Note
	denied          int
}

// try runs a site in both servers. It returns an error if nginx refuses the site or the
// machine fails.
func (g *stage) try(t *testing.T, s *site) (result, error) {
	r := result{asked: len(s.requests)}
	there, err := g.nginx(s, s.requests)
	if err != nil {
		return r, err
	}
	if r.yaml, r.notes, err = g.convert(s); err != nil {
		return r, err
	}
	ids, bare, odd, hosts := s.excused(r.notes)
	r.excused = len(ids)+len(bare)+len(hosts) > 0
	excuses := func(q asked, trail string) bool {
		for id := range ids {
			if strings.Contains(trail, id) {
				return true
			}
		}
		for id, names := range hosts {
			for _, name := range names {
				below, wild := strings.CutPrefix(name, "sluice.")
				if strings.Contains(trail, id) && (name == q.host || wild && strings.HasSuffix(q.host, "."+below) || name == "that no server names" && !slices.ContainsFunc(s.names(), func(n string) bool {
					return n == q.host || n[0] == '*' && strings.HasSuffix(q.host, n[1:]) || n[0] == '.' && (strings.HasSuffix(q.host, n) || q.host == n[1:])
				})) {
					return true
				}
			}
		}
		for id := range odd {
			if q.odd && strings.Contains(trail, id) {
				return true
			}
		}
		for id, text := range bare {
			_, after, _ := strings.Cut(text, "; here ")
			path, _, _ := strings.Cut(after, " and what")
			asked, _, _ := strings.Cut(q.path, "?")
			if strings.Contains(trail, id) && asked != path && !strings.HasPrefix(asked, path+"/") {
				return true
			}
		}
		return false
	}
	kept := slices.Clone(s.requests)
	for i := range kept { // requests that nginx answers itself do not stay with the upstream
		kept[i].held = kept[i].held && (there[i].denied || there[i].upstream != "")
	}
	if r.excused || len(odd) > 0 {
		all := kept
		kept = nil
		for i, q := range all {
			if !excuses(q, there[i].trail) {
				kept = append(kept, q)
			}
		}
		if len(kept) > 0 && len(kept) < len(s.requests) {
			if there, err = g.nginx(s, kept); err != nil {
				return r, err
			}
		}
	}
	r.compared = len(kept)
	if len(kept) == 0 {
		return r, nil
	}
	here, err := g.sluice(t, r.yaml, kept)
	if err != nil {
		return r, fmt.Errorf("%w in\n%s", err, r.yaml)
	}
	for i, q := range kept {
		a, b := there[i], here[i]
		if a.denied {
			r.denied++
		}
		upstreamNoted := func() bool {
			return strings.Contains(r.yaml, "1000000/s") || slices.ContainsFunc(r.notes, func(n nginx.Note) bool { return strings.Contains(n.Text, "upstream") })
		}
		// nginx redirects a path that lacks only the final slash: see the note in ADR 66.
		asked, _, _ := strings.Cut(q.path, "?")
		slash := a.status == http.StatusMovedPermanently && slices.ContainsFunc(slices.Collect(maps.Values(s.render(false))), func(text string) bool {
			return strings.Contains(text, asked+"/ {")
		})
		switch {
		case excuses(q, a.trail):
		case a.denied != b.denied, a.denied && a.status != b.status:
			r.problem = fmt.Sprintf("request %d %+v: denied %v with %d, nginx %v with %d (%s)", i, q, b.denied, b.status, a.denied, a.status, a.trail)
			return r, nil
		case !a.denied && a.upstream != b.upstream && !slash && !upstreamNoted():
			r.problem = fmt.Sprintf("request %d %+v: went to upstream %q, in nginx to %q (%s)", i, q, b.upstream, a.upstream, a.trail)
			return r, nil
		}
	}
	return r, nil
}

// shrink removes parts of a failing site while it still fails.
func (g *stage) shrink(t *testing.T, s *site) {
	fails := func() bool {
		r, err := g.try(t, s)
		return err == nil && r.problem != ""
	}
	for again := true; again; {
		again = false
		for size := len(s.requests) / 2; size > 0; size /= 2 {
			for i := 0; i+size <= len(s.requests); {
				before := s.requests
				s.requests = append(slices.Clone(before[:i]), before[i+size:]...)
				if !fails() {
					s.requests, i = before, i+size
				}
			}
		}
		var visit func(st *stanza)
		visit = func(st *stanza) {
			for i := 0; i < len(st.list); {
				if strings.HasPrefix(st.list[i].head, "listen") || st == s.http && i < len(base()) {
					i++
					continue
				}
				before := st.list
				st.list = append(slices.Clone(before[:i]), before[i+1:]...)
				if fails() {
					again = true
					continue
				}
				st.list = before
				visit(st.list[i])
				i++
			}
		}
		visit(s.http)
	}
}

// report fails the test with a shrunk site.
func (g *stage) report(t *testing.T, name string, s *site) {
	t.Helper()
	g.shrink(t, s)
	r, err := g.try(t, s)
	var text strings.Builder
	for file, part := range s.render(false) {
		fmt.Fprintf(&text, "--- %s\n%s", file, part)
	}
	for _, n := range r.notes {
		fmt.Fprintf(&text, "note %v\n", n)
	}
	t.Errorf("%s: %s (%v)\n%s--- converted\n%s", name, r.problem, err, text.String(), r.yaml)
}
