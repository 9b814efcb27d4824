// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParse(t *testing.T) {
	password := write(t, "from a file\n")
	env := map[string]string{redisurl.UserVariable: "env user", redisurl.PasswordVariable: "env password"}
	for _, c := range []struct {
		name, line string
		env        map[string]string
		want       string // addresses, database, user, password, TLS, master, sentinels' user and password
		shown      string
	}{
		{"plain", "redis://127.0.0.1:6379", nil, "[127.0.0.1:6379] 0 \"\" \"\" false \"\" \"\" \"\"", "redis://127.0.0.1:6379"},
		{"default port", "redis://cache.internal", nil, "[cache.internal:6379] 0 \"\" \"\" false \"\" \"\" \"\"", "redis://cache.internal:6379"},
		{"IPv6", "redis://[::1]:7000/3", nil, "[[::1]:7000] 3 \"\" \"\" false \"\" \"\" \"\"", "redis://[::1]:7000/3"},
		{"IPv6 without port", "redis://[::1]", nil, "[[::1]:6379] 0 \"\" \"\" false \"\" \"\" \"\"", "redis://[::1]:6379"},
		{"user and file", "redis://a%40b@h/2?password_file=" + password, nil, "[h:6379] 2 \"a@b\" \"from a file\" false \"\" \"\" \"\"", "redis://h:6379/2"},
		{"environment", "redis://h", env, "[h:6379] 0 \"env user\" \"env password\" false \"\" \"\" \"\"", "redis://h:6379"},
		{"user of the line first", "redis://me@h", env, "[h:6379] 0 \"me\" \"env password\" false \"\" \"\" \"\"", "redis://h:6379"},
		{"TLS", "rediss://h:1", nil, "[h:1] 0 \"\" \"\" true \"\" \"\" \"\"", "rediss://h:1"},
		{
			"sentinels", "redis-sentinel://me@a,b:2/my%20master/4?sentinel_user=s&sentinel_password_file=" + password, nil,
			"[a:26379 b:2] 4 \"me\" \"\" false \"my master\" \"s\" \"from a file\"", "redis-sentinel://a:26379,b:2/my%20master/4",
		},
		{"cluster", "redis-cluster://a,b:7001,c", nil, "[a:6379 b:7001 c:6379] 0 \"\" \"\" false \"\" \"\" \"\"", "redis-cluster://a:6379,b:7001,c:6379"},
		{"cluster with TLS", "rediss-cluster://a/0", nil, "[a:6379] 0 \"\" \"\" true \"\" \"\" \"\"", "rediss-cluster://a:6379"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, err := redisurl.ParseLine(c.line, func(name string) string { return c.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			o, err := rueidisstore.ClientOption(target)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v %d %q %q %t %q %q %q", o.InitAddress, o.SelectDB, o.Username, o.Password,
				o.TLSConfig != nil, o.Sentinel.MasterSet, o.Sentinel.Username, o.Sentinel.Password)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if target.String() != c.shown {
				t.Errorf("shown as %q, want %q", target, c.shown)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ name, line, want string }{
		{"missing password", "redis://h?password_file=" + missing, "password_file"},
		{"empty password", "redis://h?password_file=" + write(t, ""), "is empty"},
		{"huge password", "redis://h?password_file=" + write(t, strings.Repeat("x", 1<<20+1)), "more than"},
		{"CA is no PEM", "rediss://h?ca_file=" + write(t, "hello"), "no certificate"},
		{"certificate is none", "rediss://h?cert_file=" + write(t, "a") + "&key_file=" + write(t, "b"), "cert_file and key_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, err := redisurl.ParseLine(c.line, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rueidisstore.ClientOption(target); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
