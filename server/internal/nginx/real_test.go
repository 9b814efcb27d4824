// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// realConfig is a configuration for nginx itself. The rates are so low that nothing refills
// during the test, however slow the machine is.
const realConfig = `
daemon off;
master_process off;
error_log stderr crit;
pid DIR/pid;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
	root DIR/root;
	geo $limited { default 1; 127.0.0.2/32 0; }
	map $limited $limit_key { 0 ""; 1 $binary_remote_addr; }
	limit_req_zone $http_x_key zone=key:1m rate=1r/m;
	limit_req_zone $binary_remote_addr$arg_k zone=pair:1m rate=1r/m;
	limit_req_zone $limit_key zone=most:1m rate=1r/m;
	limit_req_zone all zone=all:1m rate=1r/m;
	server {
		listen 127.0.0.1:PORT;
		limit_req zone=all burst=40 nodelay;
		location / { }
		location /key/ { limit_req zone=key burst=3 nodelay; limit_req_status 429; }
		location /key/open/ { limit_req zone=all burst=40 nodelay; }
		location = /pair { limit_req zone=pair nodelay; limit_req zone=key burst=5 nodelay; limit_req_status 509; }
		location /most/ { limit_req zone=most burst=2 nodelay; }
		location /dry/ { limit_req zone=most burst=1 nodelay; limit_req_dry_run on; }
	}
}
`

// TestRealNginx: the same requests go to nginx and to the conversion of its configuration.
func TestRealNginx(t *testing.T) {
	base, text := startNginx(t, realConfig)
	yaml, notes, err := convertText("nginx.conf", text)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		if !strings.Contains(n.Text, "is one budget in nginx") {
			t.Errorf("note: %v", n)
		}
	}
	c, err := config.Parse("converted.yaml", yaml)
	if err != nil {
		t.Fatal(err)
	}
	eval, err := evaluate.New(evaluate.Options{Policy: c.Policy, Store: memstore.New(memstore.Options{MaxKeys: 1024}), CallerWaits: true})
	if err != nil {
		t.Fatal(err)
	}

	timeline := []struct {
		path, key, from string
		times           int
	}{
		{"/key/x", "a", "", 6},
		{"/key/x", "b", "", 2},
		{"/key/x", "", "", 6}, // no key, no limit
		{"/key//y/../x", "a", "", 1},
		{"/key/%78", "b", "", 3},
		{"/pair?k=1", "c", "", 2},
		{"/pair?k=2", "c", "", 2},
		{"/pair", "c", "", 2},
		{"/most/x", "", "", 4},
		{"/most/x", "", "127.0.0.2", 6},
		{"/most/x", "", "127.0.0.3", 4},
		{"/dry/x", "", "127.0.0.4", 5},
		{"/other", "", "", 45},
	}
	denied := 0
	for _, step := range timeline {
		for i := range step.times {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+step.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if step.key != "" {
				req.Header.Set("X-Key", step.key)
			}
			want := ask(t, req, step.from)
			from := step.from
			if from == "" {
				from = "127.0.0.1"
			}
			var h wire.Attributes
			h.Reset(req, netip.MustParseAddr(from), nil)
			var call evaluate.Call
			eval.Decide(t.Context(), &h, &call)
			v := call.Evaluated
			if v.Err != nil || v.Refused != nil {
				t.Fatalf("error %v, refused %v", v.Err, v.Refused)
			}
			got := http.StatusOK
			if o, ok := v.Binding(nil); !v.Allowed && ok {
				got = o.Rule.Status
				denied++
			}
			if got != want {
				t.Errorf("request %d of %+v: %d, nginx %d", i+1, step, got, want)
			}
		}
	}
	if denied < 10 {
		t.Errorf("only %d requests were denied; the timeline shows too little", denied)
	}
}

// ask sends a request from an address of this machine and returns its status.
func ask(t *testing.T, req *http.Request, from string) int {
	t.Helper()
	dialer := &net.Dialer{}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}
