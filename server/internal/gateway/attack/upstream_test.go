// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// request is a request as it arrived at the upstream.
type request struct {
	method, target string
	fields         []string // lines
	body           string
	fault          string // text that servers may read in another way
}

// values returns the values of a field's name, in any case and with underscores.
func (r *request) values(name string) (values []string) {
	for _, line := range r.fields {
		field, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(strings.ReplaceAll(field, "_", "-"), name) {
			values = append(values, strings.Trim(value, " \t"))
		}
	}
	return values
}

// exactly is values without names with underscores, which most servers ignore.
func (r *request) exactly(name string) (values []string) {
	for _, line := range r.fields {
		if field, value, _ := strings.Cut(line, ":"); strings.EqualFold(field, name) {
			values = append(values, strings.Trim(value, " \t"))
		}
	}
	return values
}

// upstream answers requests and records them. Its own parser is stricter than any server must
// be.
type upstream struct {
	net.Listener
	mu       sync.Mutex
	requests map[string][]request // by their field X-Row
	running  map[string]int       // how many of a row are being processed
}

// newUpstream listens until the test ends.
func newUpstream(t *testing.T) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{Listener: l, requests: make(map[string][]request), running: make(map[string]int)}
	var open sync.WaitGroup
	conns := make(map[net.Conn]bool)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		u.mu.Lock()
		for c := range conns {
			_ = c.Close() // it may be closed
		}
		u.mu.Unlock()
		open.Wait()
	})
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			u.mu.Lock()
			conns[c] = true
			u.mu.Unlock()
			open.Go(func() {
				u.serve(c)
				_ = c.Close() // it may be closed
				u.mu.Lock()
				delete(conns, c)
				u.mu.Unlock()
			})
		}
	})
	return u
}

func (u *upstream) url() string { return "http://" + u.Addr().String() }

func (u *upstream) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		r, err := read(in, c)
		if err != nil {
			return
		}
		row := strings.Join(r.values("X-Row"), ",")
		u.mu.Lock()
		u.requests[row] = append(u.requests[row], r)
		u.running[row]++
		u.mu.Unlock()
		text := answer(&r)
		u.mu.Lock()
		u.running[row]--
		u.mu.Unlock()
		if _, err := io.WriteString(c, text); err != nil || r.fault != "" {
			return
		}
		if r.method == http.MethodHead && len(r.values("X-Body")) > 0 { // like a broken server
			time.Sleep(5 * time.Millisecond)
			_, _ = io.WriteString(c, "ok") // it may have hung up
		}
	}
}

// of returns the requests of a row.
func (u *upstream) of(row string) []request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]request(nil), u.requests[row]...)
}

// saw returns the requests of a row in short form; each must be unambiguous.
func (u *upstream) saw(t *testing.T, row string) (all []string) {
	t.Helper()
	for _, r := range u.of(row) {
		if r.fault != "" {
			t.Errorf("the upstream got %q, of which others may make something else: %s", r, r.fault)
		}
		all = append(all, strings.TrimSpace(r.method+" "+r.target+" "+r.body))
	}
	return all
}

// idle reports whether no request of a row is being processed.
func (u *upstream) idle(row string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.running[row] == 0
}

// answer does what the request's field X-Answer says: a status, after a number of
// milliseconds, with a cost. It continues after the client has left.
func answer(r *request) string {
	status, wait, cost := http.StatusOK, 0, 0
	if asked := r.values("X-Answer"); len(asked) == 1 {
		if _, err := fmt.Sscan(asked[0], &status, &wait, &cost); err != nil {
			status = http.StatusTeapot
		}
	}
	time.Sleep(time.Duration(wait) * time.Millisecond)
	body := "ok"
	if r.method == http.MethodHead {
		body = ""
	}
	return fmt.Sprintf("HTTP/1.1 %d X\r\nX-Cost: %d\r\nContent-Length: 2\r\n\r\n%s", status, cost, body)
}

var (
	fieldName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	requestLine = regexp.MustCompile(`^([A-Za-z-]+) ([^\x00-\x20\x7f]+) HTTP/1\.1$`)
)

// control reports whether a field may not hold c.
func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// read reads a request. Anything ambiguous is a fault.
func read(in *bufio.Reader, out io.Writer) (r request, err error) {
	fault := func(format string, args ...any) {
		if r.fault == "" {
			r.fault = fmt.Sprintf(format, args...)
		}
	}
	line := func() (string, error) {
		text, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		text, ok := strings.CutSuffix(text, "\r\n")
		if !ok || strings.Contains(text, "\r") {
			fault("the end of %q", text)
		}
		return text, nil
	}
	first, err := line()
	if err != nil {
		return r, err
	}
	if words := requestLine.FindStringSubmatch(first); words != nil {
		r.method, r.target = words[1], words[2]
	} else {
		fault("request line %q", first)
	}
	for {
		text, err := line()
		if err != nil {
			return r, err
		}
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok || !fieldName.MatchString(name) || strings.ContainsFunc(value, control) {
			fault("field %q", text)
		}
		r.fields = append(r.fields, text)
	}
	return r, r.readBody(in, out, line, fault)
}

// readBody reads the body of a request whose head was read.
func (r *request) readBody(in *bufio.Reader, out io.Writer, line func() (string, error), fault func(string, ...any)) error {
	length, coding := r.exactly("Content-Length"), r.exactly("Transfer-Encoding")
	if len(r.values("Host")) != 1 {
		fault("%d fields Host", len(r.values("Host")))
	}
	if len(r.values("Expect")) > 0 {
		if _, err := io.WriteString(out, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return err
		}
	}
	for _, protocol := range r.exactly("Upgrade") {
		if regexp.MustCompile(`(?i)\b(h2c?|http|tls)\b`).MatchString(protocol) {
			fault("Upgrade %q, behind which others would not be evaluated", protocol)
		}
	}
	size := 0
	switch {
	case len(length)+len(coding) > 1:
		fault("several lengths: %q, %q", length, coding)
		return nil
	case len(length) == 1:
		var ok bool
		if size, ok = digits(length[0], 10); !ok {
			fault("Content-Length %q", length[0])
			return nil
		}
	case len(coding) == 1 && coding[0] == "chunked":
		return r.readChunks(in, line, fault)
	case len(coding) == 1:
		fault("Transfer-Encoding %q", coding[0])
		return nil
	}
	body := make([]byte, size)
	_, err := io.ReadFull(in, body)
	r.body = string(body)
	return err
}

// digits reads a number in its shortest form.
func digits(text string, base int) (int, bool) {
	n, err := strconv.ParseUint(text, base, 31)
	return int(n), err == nil && strconv.FormatUint(n, base) == text
}

func (r *request) readChunks(in *bufio.Reader, line func() (string, error), fault func(string, ...any)) error {
	for {
		text, err := line()
		if err != nil {
			return err
		}
		n, ok := digits(text, 16)
		if !ok {
			fault("size of a chunk %q", text)
			return nil
		}
		chunk := make([]byte, n)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return err
		}
		r.body += string(chunk)
		for n == 0 && text != "" { // the trailer
			if text, err = line(); err != nil {
				return err
			}
			if text != "" {
				r.fields = append(r.fields, "trailer "+text)
			}
		}
		if n == 0 {
			return nil
		}
		if text, err = line(); err != nil || text != "" {
			fault("behind a chunk: %q", text)
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
}
