// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/profile"
)

// profilesConfig has the limits of the nginx profiles, for each key of a query.
const profilesConfig = `
daemon off;
master_process off;
error_log DIR/error.log warn;
pid DIR/pid;
events { worker_connections 4096; }
http {
	log_format instants "$arg_id $msec $request_time $status $uri?k=$arg_k";
	access_log DIR/access.log instants;
	client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
	root DIR/root;
	limit_req_zone $arg_k zone=a:1m rate=10r/s;
	limit_req_zone $arg_k zone=b:1m rate=10r/s;
	limit_req_zone $arg_k zone=c:1m rate=5r/s;
	limit_req_zone $arg_k zone=d:1m rate=1r/m;
	server {
		listen 127.0.0.1:PORT;
		location = /key/x { limit_req zone=a burst=5; }
		location = /pair { limit_req zone=b burst=5 nodelay; }
		location = /most/x { limit_req zone=c burst=12 delay=8; }
		location = /dry/x { limit_req zone=d; }
	}
}
`

// TestRealNginxProfiles sends nginx thousands of requests of many keys at random instants: the
// profiles decide each as nginx did, at the same instant.
func TestRealNginxProfiles(t *testing.T) {
	base, text := startNginx(t, profilesConfig) // alone: other tests would take the machine's time
	yaml, notes, err := convertText("nginx.conf", text)
	if err != nil || len(notes) > 0 {
		t.Fatalf("error %v, notes %v", err, notes)
	}
	c, err := config.Parse("converted.yaml", yaml)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 25
	bursts := testkit.Steps(10, 40)
	names := map[string]string{"/key/x": "nginx", "/pair": "nginx-nodelay", "/most/x": "nginx-delay", "/dry/x": "nginx-minute"}
	zones := make(map[string]*zone)
	var paths []string
	for _, r := range c.Policy.Rules() {
		path := r.Match.Paths[0]
		p, ok := profile.Get(names[path])
		if !ok {
			t.Fatalf("no profile for %s", path)
		}
		if got := r.Levels[0].Limits[0].Limit.Filled(); got.WithName("") != p.Limits[0].Filled().WithName("") {
			t.Errorf("%s: nginx's configuration makes %v of itself, the profile is %v", p.Name, got, p.Limits[0])
		}
		for k := range keys {
			path := fmt.Sprintf("%s?k=%d", path, k)
			zones[path], paths = newZone(t, p.Limits[0]), append(paths, path+"&")
		}
	}
	there := flood(t, base, paths, bursts)
	checkLog(t, text, there, func(path string) *zone { return zones[path] })
	sum := make(map[string]*zone)
	for path, z := range zones {
		at, _, _ := strings.Cut(path, "?")
		name := names[at]
		if sum[name] == nil {
			sum[name] = &zone{}
		}
		sum[name].allowed, sum[name].denied, sum[name].held = sum[name].allowed+z.allowed, sum[name].denied+z.denied, sum[name].held+z.held
	}
	t.Logf("%d requests", len(there))
	least := keys * bursts / 40
	for name, z := range sum {
		t.Logf("%s: %d allowed, %d denied, %d delayed", name, z.allowed, z.denied, z.held)
		if z.allowed < least || z.denied < least {
			t.Errorf("%s: %d allowed, %d denied; the timeline shows too little", name, z.allowed, z.denied)
		}
		if delays := name == "nginx" || name == "nginx-delay"; delays != (z.held > least) {
			t.Errorf("%s: %d delayed", name, z.held)
		}
	}
	if len(there) < 250*bursts || len(sum) != len(names) {
		t.Errorf("%d requests to %d limits, want %d or more to %d", len(there), len(sum), 250*bursts, len(names))
	}
}
