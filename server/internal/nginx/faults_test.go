// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/nginx"
)

// like returns n equal requests of a client.
func like(n int, path string, fields ...string) (list []asked) {
	for range n {
		list = append(list, asked{method: "GET", path: path, host: "a.test", from: "127.0.0.1", fields: fields})
	}
	return list
}

// with returns a configuration with the common lines and those of text: a line that ends in {
// begins a block.
func with(text string) *stanza {
	http := block("http", append(base(), line("limit_req_zone $binary_remote_addr zone=z:32k rate=1r/m"), line("limit_conn_zone $binary_remote_addr zone=c:32k"))...)
	open := []*stanza{http}
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		top := open[len(open)-1]
		switch {
		case l == "":
		case l == "}":
			open = open[:len(open)-1]
		case strings.HasSuffix(l, "{"):
			b := block(strings.TrimSuffix(l, " {"))
			top.list = append(top.list, b)
			open = append(open, b)
		default:
			top.list = append(top.list, line("%s", strings.TrimSuffix(l, ";")))
		}
	}
	return http
}

// TestKnownConfigurations: common configurations decide in sluice as in nginx. A required note
// names the exceptions.
func TestKnownConfigurations(t *testing.T) {
	t.Parallel()
	const limit = "limit_req zone=z burst=1 nodelay;"
	const whole = "location / {\n" + limit + "\nproxy_pass http://UP0;\n}\n}"
	const keyed = "server {\nlisten PORT0;\nlocation / {\nlimit_req zone=k burst=1 nodelay;\nproxy_pass http://UP0;\n}\n}"
	tests := map[string]struct {
		text     string
		requests []asked
		note     string // "": all must decide alike
	}{
		"addresses of one location": {
			limit + "\nserver {\nlisten PORT0;\nlocation / {\nset_real_ip_from 127.0.0.2;\nreal_ip_header X-Forwarded-For;\nreal_ip_recursive on;\nproxy_pass http://UP0;\n}\nlocation ~ \\.css$ {\nproxy_pass http://UP0;\n}\n}",
			like(3, "/x.css"), "location ~ \\.css$: finds the address of clients otherwise",
		},
		"files beside a limit": {
			"server {\nlisten PORT0;\nlocation / {\n" + limit + "\nproxy_pass http://UP0;\n}\nlocation ~* \\.css$ {\nproxy_pass http://UP0;\n}\n}",
			append(like(5, "/x"), like(5, "/x.css")...), `location ~* \.css$: a path in a rule is no regular expression`,
		},
		"what is no file": {
			"server {\nlisten PORT0;\nlocation / {\ntry_files $uri @app;\n}\nlocation @app {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			like(5, "/x"), "location /: try_files: requests for files that are there are not limited in nginx",
		},
		"a health check": {
			"server {\nlisten PORT0;\n" + limit + "\nlocation / {\nproxy_pass http://UP0;\n}\nlocation = /healthz {\nreturn 200 ok;\n}\n}",
			append(like(5, "/healthz"), like(5, "/x")...), "",
		},
		"redirects": {
			"server {\nlisten PORT0;\n" + limit + "\nrewrite ^/old/(.*)$ /new/$1 permanent;\nlocation / {\nproxy_pass http://UP0;\n}\nlocation /moved/ {\nrewrite ^ /x redirect;\n}\n}",
			append(append(like(5, "/old/x"), like(5, "/moved/x")...), like(5, "/x")...), "",
		},
		"everybody is trusted": {
			"set_real_ip_from 0.0.0.0/0;\nreal_ip_header X-Forwarded-For;\nserver {\nlisten PORT0;\nlocation / {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			append(like(3, "/x", "X-Forwarded-For: 192.0.2.1, 192.0.2.9"), like(3, "/x", "X-Forwarded-For: 192.0.2.2, 192.0.2.9")...), "set_real_ip_from 0.0.0.0/0: trusts everybody",
		},
		"proxies one behind the other, the last address": {
			"set_real_ip_from 127.0.0.0/8;\nreal_ip_header X-Forwarded-For;\nserver {\nlisten PORT0;\nlocation / {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			append(like(3, "/x", "X-Forwarded-For: 192.0.2.1, 127.0.0.9"), like(3, "/x", "X-Forwarded-For: 192.0.2.2, 127.0.0.9")...), "set_real_ip_from 127.0.0.0/8: real_ip_recursive is off",
		},
		"proxies one behind the other": {
			"set_real_ip_from 127.0.0.0/8;\nreal_ip_header X-Forwarded-For;\nreal_ip_recursive on;\nserver {\nlisten PORT0;\nlocation / {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			append(like(3, "/x", "X-Forwarded-For: 192.0.2.1, 127.0.0.9"), like(3, "/x", "X-Forwarded-For: 192.0.2.2, 127.0.0.9")...), "",
		},
		"modifiers without a blank": {
			"server {\nlisten PORT0;\nlocation / {\nproxy_pass http://UP0;\n}\nlocation =/login {\n" + limit + "\nproxy_pass http://UP0;\n}\nlocation ^~/static/ {\n" +
				"limit_conn c 1;\nproxy_pass http://UP0;\n}\nlocation ~\\.css$ {\nproxy_pass http://UP0;\n}\n}",
			append(append(like(5, "/login"), like(5, "/x")...), held(like(2, "/static/x.css"))...), "",
		},
		"a status that closes": {
			"server {\nlisten PORT0;\nlocation / {\n" + limit + "\nlimit_req_status 444;\nproxy_pass http://UP0;\n}\n}",
			like(5, "/x"), "limit_req_status 444: nginx closes the connection",
		},
		"a status of nginx's own": {
			"server {\nlisten PORT0;\nlocation / {\n" + limit + "\nlimit_req_status 496;\nproxy_pass http://UP0;\n}\n}",
			like(5, "/x"), "",
		},
		"an answer of its own": {
			"server {\nlisten PORT0;\nlocation / {\n" + limit + "\nlimit_req_status 429;\nerror_page 429 = /busy;\nproxy_pass http://UP0;\n}\nlocation = /busy {\nreturn 200 busy;\n}\n}",
			like(5, "/x"), "error_page 429: is not the answer of a denial here",
		},
		"a field of denials": {
			"server {\nlisten PORT0;\nlocation / {\n" + limit + "\nadd_header Retry-After 5 always;\nproxy_pass http://UP0;\n}\n}",
			like(5, "/x"), "add_header Retry-After: is not in the answer of a denial here",
		},
		"a regular expression beside what is internal": {
			"server {\nlisten PORT0;\n" + limit + "\nlocation / {\ninternal;\n}\nlocation ~* \\.css$ {\nproxy_pass http://UP0;\n}\n}",
			append(like(3, "/x"), like(5, "/x.css")...), `location ~* \.css$: a path in a rule is no regular expression`,
		},
		"an index": {
			"server {\nlisten PORT0;\nlocation / {\n}\nlocation = /index.html {\n" + limit + "\n}\n}",
			append(like(5, "/"), like(5, "/index.html")...), "location /: requests for / are limited as those of /index.html in nginx, if that file is there",
		},
		"a directive that is not known": {
			"server {\nlisten PORT0;\nlocation / {\n" + limit + "\ndeny 127.0.0.1;\nproxy_pass http://UP0;\n}\n}",
			like(5, "/x"), "deny: is not known; not kept",
		},
		"an if beside a limit": {
			"server {\nlisten PORT0;\nlocation / {\nif (!-f $request_filename) {\nrewrite ^ /index.php last;\n}\nproxy_pass http://UP0;\n}\nlocation = /index.php {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			append(like(5, "/x"), like(5, "/index.php")...), "location /: if (!-f $request_filename): what it does with some requests is not kept",
		},
		"an if before a rewrite": {
			"server {\nlisten PORT0;\nlocation / {\nif ($http_x_slow) {\nbreak;\n}\nrewrite ^ /y last;\n}\nlocation = /y {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			like(5, "/x", "X-Slow: 1"), "location /: if ($http_x_slow): what it does with some requests is not kept",
		},
		"a delay while slots are few": {
			"server {\nlisten PORT0;\nlocation / {\nlimit_req zone=z burst=10;\nlimit_conn c 1;\nproxy_pass http://UP0;\n}\n}",
			held(like(1, "/x")), "limit_conn: a request that limit_req delays is in flight while it waits here",
		},
		"a field that is sent twice": {
			"limit_req_zone $http_x_forwarded_for zone=k:32k rate=1r/m;\n" + keyed,
			append(odd(like(3, "/x", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2")), like(3, "/x", "X-Forwarded-For: 192.0.2.3")...), "zone k: nginx takes a $http_x_forwarded_for that is sent twice",
		},
		"parameters that servers read differently": {
			"limit_req_zone $arg_key zone=k:32k rate=1r/m;\n" + keyed,
			append(odd(append(append(like(2, "/x?KEY=a"), like(2, "/x?key=a&key=b")...), like(2, "/x?key=%61")...)), like(3, "/x?key=c")...), "zone k: nginx takes a $arg_key that is sent twice",
		},
		"cookies that servers read differently": {
			"limit_req_zone $cookie_sid zone=k:32k rate=1r/m;\n" + keyed,
			append(odd(append(append(like(2, "/x", "Cookie: SID=a"), like(2, "/x", "Cookie: sid=a; sid=b")...), like(2, "/x", "Cookie: sid=%61")...)), like(3, "/x", "Cookie: sid=c")...), "zone k: nginx takes a $cookie_sid that is sent twice",
		},
		"a redirect to HTTPS": {
			"server {\nlisten PORT0;\nserver_name a.test;\nreturn 301 https://$host$request_uri;\n}\nserver {\nlisten PORT1;\n" + whole,
			append(like(2, "/x"), at1(like(5, "/x"))...), "server a.test: nginx answers all its requests itself; nothing listens at :",
		},
		"a redirect to HTTPS but for some files": {
			"server {\nlisten PORT0;\nserver_name a.test;\nlocation /.well-known/ {\n}\nlocation / {\nrewrite ^ https://a.test$request_uri?;\n}\n}\nserver {\nlisten PORT1;\n" + whole,
			append(like(2, "/x"), at1(like(5, "/x"))...), "server a.test: nginx answers all its requests itself; nothing listens at :",
		},
		"a redirect by an if": {
			"server {\nlisten PORT0;\nserver_name a.test;\nif ($host = a.test) {\nreturn 301 https://$host$request_uri;\n}\nreturn 404;\n}\nserver {\nlisten PORT1;\n" + whole,
			append(like(2, "/x"), at1(like(5, "/x"))...), "server a.test: nginx answers all its requests itself; nothing listens at :",
		},
		"a redirect to HTTPS but for what another server has": {
			"server {\nlisten PORT0;\nserver_name a.test;\nlocation /.well-known/ {\nproxy_pass http://UP1;\n}\nlocation / {\nreturn 301 https://$host$request_uri;\n}\n}\nserver {\nlisten PORT1;\nserver_name a.test;\n" + whole,
			append(append(like(2, "/x"), like(2, "/.well-known/x")...), at1(like(5, "/x"))...), "location /: nginx answers its requests itself; here those for hosts a.test go to the upstream",
		},
		"a redirect beside another server": {
			"server {\nlisten PORT0;\nserver_name a.test;\nlocation / {\nproxy_pass http://UP0;\n}\nreturn 301 https://$host$request_uri;\n}\nserver {\nlisten PORT0 default_server;\n" + whole,
			like(2, "/x"), "server a.test: nginx answers its requests itself; here those for hosts a.test go to the upstream",
		},
		"files beside another server": {
			"server {\nlisten PORT0;\nserver_name a.test;\nlocation / {\n}\n}\nserver {\nlisten PORT0 default_server;\n" + whole,
			like(2, "/x"), "location /: nginx answers its requests itself; here those for hosts a.test go to the upstream",
		},
		"a redirect before what is around it": {
			"server {\nlisten PORT0;\nlocation /moved/ {\nreturn 301 /x;\n}\n" + whole,
			like(2, "/moved/x"), "location /moved/: its upstream is http://",
		},
		"a redirect beside an upstream": {
			"server {\nlisten PORT0;\nlocation /moved/ {\nreturn 301 /x;\nproxy_pass http://UP0;\n}\n" + whole,
			like(2, "/moved/x"), "location /moved/: its upstream is http://",
		},
		"what is internal, with an upstream": {
			"server {\nlisten PORT0;\nlocation /files/ {\ninternal;\nproxy_pass http://UP0;\n}\n" + whole,
			like(2, "/files/x"), "location /files/: its upstream is http://",
		},
		"a redirect of some paths": {
			"server {\nlisten PORT0;\nrewrite ^/old/ /new/ permanent;\n" + whole,
			like(2, "/old/x"), "rewrite ^/old/: redirects in nginx; here the upstream gets these requests",
		},
		"an if in a server without limits": {
			"server {\nlisten PORT0;\nserver_name a.test;\nif ($arg_k) {\nreturn 403;\n}\nlocation / {\nproxy_pass http://UP0;\n}\n}\nserver {\nlisten PORT0;\nserver_name b.test;\n" + whole,
			like(2, "/x?k=1"), "if ($arg_k): what it does is not kept; the upstream gets all requests",
		},
		"a refusal in a server without limits": {
			"server {\nlisten PORT0;\nserver_name a.test;\ndeny all;\nlocation / {\nproxy_pass http://UP0;\n}\n}\nserver {\nlisten PORT0;\nserver_name b.test;\n" + whole,
			like(2, "/x"), "deny: is not known; not kept",
		},
		"an upstream of one path": {
			"server {\nlisten PORT0;\nlocation = / {\n" + limit + "\nproxy_pass http://UP0;\n}\n}",
			like(2, "/x"), "location = /: its upstream is none here",
		},
	}
	g := newStage(t)
	for name, test := range tests {
		s := &site{http: with(test.text), requests: test.requests}
		r, err := g.try(t, s)
		notes := fmt.Sprint(r.notes)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case r.problem != "":
			t.Errorf("%s: %s\n%s\n%s", name, r.problem, notes, r.yaml)
		case test.note == "" && r.excused, !strings.Contains(notes, test.note):
			t.Errorf("%s: notes %s, want %q", name, notes, test.note)
		case test.note == "" && r.compared != len(test.requests):
			t.Errorf("%s: compared %d requests", name, r.compared)
		}
	}
}

// held returns the requests as ones that stay with the upstream.
func held(list []asked) []asked {
	for i := range list {
		list[i].held = true
	}
	return list
}

// odd returns the requests as ones whose keys servers read differently.
func odd(list []asked) []asked {
	for i := range list {
		list[i].odd = true
	}
	return list
}

// at1 returns the requests for the second port.
func at1(list []asked) []asked {
	for i := range list {
		list[i].port = 1
	}
	return list
}

// TestLargestBody: a configuration's bounds on bodies become max_body of the routes.
func TestLargestBody(t *testing.T) {
	t.Parallel()
	yaml, _, err := convertText("f", `limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s;
		client_max_body_size 10M;
		server {
			limit_req zone=z;
			location / { proxy_pass http://127.0.0.1:1; }
			location /up/ { client_max_body_size 2g; proxy_pass http://127.0.0.1:1; }
			location /any/ { client_max_body_size 0; proxy_pass http://127.0.0.1:1; }
			location = /small { client_max_body_size 512; proxy_pass http://127.0.0.1:1; }
		}`)
	c, fault := config.Parse("f", yaml)
	if err != nil || fault != nil {
		t.Fatal(err, fault)
	}
	got := map[string]int64{}
	for _, u := range c.Upstreams {
		got[u.Path] = u.MaxBody
	}
	if want := map[string]int64{"": 10 << 20, "/up": 2 << 30, "/any": 0}; !maps.Equal(got, want) {
		t.Errorf("bodies %v, want %v in\n%s", got, want, yaml)
	}
}

// TestRedirectsAreLeft: a server that only redirects to the site gets neither a listener nor
// rules, and one note.
func TestRedirectsAreLeft(t *testing.T) {
	t.Parallel()
	yaml, notes, err := nginx.Convert([]nginx.File{{Name: "f", Text: `limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s;
		server { listen 80; listen [::]:80; server_name a.test; return 301 https://a.test$request_uri; }
		server { listen 443 ssl; server_name a.test; ssl_certificate a.pem; ssl_certificate_key a.key; location / { limit_req zone=z; proxy_pass http://127.0.0.1:1; } }`}}, check)
	c, fault := config.Parse("f", yaml)
	if err != nil || fault != nil {
		t.Fatal(err, fault)
	}
	if len(c.Listen) != 1 || c.Listen[0].Address != ":443" || len(notes) != 1 || notes[0].Line != 2 || strings.Contains(string(yaml), "match:") {
		t.Errorf("listeners %v, notes %v, want that of :443 and one note of line 2 in\n%s", c.Listen, notes, yaml)
	}
}
