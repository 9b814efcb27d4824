// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
)

// TestConvert: the limits of nginx become a file that lint accepts, and the rest
// is reported.
func TestConvert(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := `http {
  limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;
  server {
    location /login { limit_req zone=one burst=5 nodelay; limit_req_status 429; }
    location /geo { limit_req zone=elsewhere; }
  }
}
`
	testkit.WriteFile(t, conf, text)
	yaml, notes := command(t, cli.OK, "convert", "nginx", conf)
	testkit.Contains(t, notes, conf+":5: ")
	file := filepath.Join(dir, "sluice.yaml")
	testkit.WriteFile(t, file, yaml)
	out, _ := command(t, cli.OK, "lint", file)
	if !strings.Contains(out, "/login") || !strings.Contains(out, "leaky-bucket") {
		t.Errorf("got\n%s\nof\n%s", out, yaml)
	}
	command(t, cli.Usage, "convert", "haproxy", conf)
	command(t, cli.Failed, "convert", "nginx", filepath.Join(dir, "none.conf"))
}

// TestConvertEnvoy: the limits of envoyproxy/ratelimit become rules that lint accepts, and the rest
// is reported.
func TestConvertEnvoy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "shop.yaml"), "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 9}}\n  - {key: zero, rate_limit: {unit: day, requests_per_unit: 0}}\n")
	yaml, notes := command(t, cli.OK, "convert", "envoy", dir)
	testkit.Contains(t, notes, filepath.Join(dir, "shop.yaml")+":4: not kept: a limit of 0")
	file := filepath.Join(dir, "sluice.yaml")
	testkit.WriteFile(t, file, yaml)
	out, _ := command(t, cli.OK, "lint", file)
	testkit.Contains(t, out, "9/min fixed-window", "with descriptor user")
	out, _ = command(t, cli.OK, "explain", "http://shop/", "--descriptor", "user=ada", "--config", file, "--listener", "127.0.0.1:8081")
	testkit.Contains(t, out, "rule shop.user", "descriptor.user=ada", "8 left")
	out, _ = command(t, cli.OK, "convert", "envoy", "--json", dir+"/shop.yaml")
	testkit.Contains(t, out, `"line": 4`)
	_, notes = command(t, cli.Failed, "convert", "envoy", file)
	testkit.Contains(t, notes, "unknown key 'listen'")
	command(t, cli.Failed, "convert", "envoy", filepath.Join(dir, "none.yaml"))
}

// TestConvertSeveralFiles: a folder, the files in it in any order, and what nginx -T prints
// are one configuration, in which a zone and its use stand in different files.
func TestConvertSeveralFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"nginx.conf":            "events {}\nhttp {\n  include /etc/nginx/mime.types;\n  include conf.d/*.conf;\n  include /etc/nginx/sites-enabled/*;\n}\n",
		"conf.d/zones.conf":     "limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;\n",
		"sites-available/shop":  "server {\n  listen 127.0.0.1:8081;\n  limit_req zone=one burst=5;\n  location / { proxy_pass http://127.0.0.1:3000; }\n}\n",
		"sites-available/other": "limit_req_zone $binary_remote_addr zone=one:10m rate=1r/s;\n",
		"fastcgi.conf":          "fastcgi_param A b;\n",
	}
	printed := ""
	for _, name := range []string{"nginx.conf", "conf.d/zones.conf", "sites-available/shop", "sites-available/other", "fastcgi.conf"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.WriteFile(t, file, files[name])
		if name == "sites-available/shop" {
			name = "sites-enabled/shop"
		}
		printed += "# configuration file /etc/nginx/" + name + ":\n" + files[strings.Replace(name, "enabled", "available", 1)]
	}
	if err := os.Mkdir(filepath.Join(dir, "sites-enabled"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../sites-available/shop", filepath.Join(dir, "sites-enabled/shop")); err != nil {
		t.Fatal(err)
	}
	all := testkit.TempFile(t, "all", printed)
	for _, args := range [][]string{
		{dir},
		{filepath.Join(dir, "conf.d/zones.conf"), filepath.Join(dir, "sites-available/shop")},
		{filepath.Join(dir, "sites-available/shop"), filepath.Join(dir, "conf.d")},
		{all},
	} {
		yaml, notes := command(t, cli.OK, append([]string{"convert", "nginx"}, args...)...)
		for _, want := range []string{"  - name: one   # line ", "10/s leaky-bucket burst 6\n", "address: \"127.0.0.1:8081\"", "url: \"http://127.0.0.1:3000\""} {
			if notes != "" || !strings.Contains(yaml, want) {
				t.Errorf("%v: notes %q, got\n%swant %s", args, notes, yaml, want)
			}
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, cli.Failed, "convert", "nginx", empty)
}
