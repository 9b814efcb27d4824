// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisurl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/redisstore/redisurl"
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
		want       string // addresses, database, user, password, TLS, master, user and password at sentinels
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
			target, err := redisurl.Parse(c.line, func(name string) string { return c.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			o, err := target.Option()
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

const secret = "s3cr3tw0rd"

var badLines = []struct{ name, line, want string }{
	{"empty", "", "must begin with"},
	{"no scheme", "127.0.0.1:6379", "must begin with"},
	{"another scheme", "http://127.0.0.1", "must begin with"},
	{"password", "redis://me:" + secret + "@h", redisurl.PasswordVariable},
	{"password with a slash", "redis://me:" + secret + "/" + secret + "@h", "not a host and a port"},
	{"password with a question mark", "redis://me:" + secret + "?" + secret + "@h", "parameter 1"},
	{"password with an at sign", "redis://me:" + secret + "@" + secret + "@h", redisurl.PasswordVariable},
	{"password as a parameter", "redis://h?password=" + secret, "parameter 1"},
	{"no host", "redis://", "address 1"},
	{"port 0", "redis://h:0", "address 1"},
	{"port too high", "redis://h:65536", "address 1"},
	{"two servers", "redis://a,b", "redis-cluster://"},
	{"one of two is bad", "redis-cluster://a,b:x", "address 2"},
	{"database is a word", "redis://h/x", "number of a database"},
	{"database of a Cluster", "redis-cluster://h/1", "database 0 only"},
	{"sentinels without a master", "redis-sentinel://h", "redis-sentinel://127.0.0.1:26379/mymaster"},
	{"CA without TLS", "redis://h?ca_file=x", "begin the URL with rediss://"},
	{"certificate without key", "rediss://h?cert_file=x", "belong together"},
	{"sentinel's user elsewhere", "redis://h?sentinel_user=x", "are of redis-sentinel://"},
	{"parameter twice", "redis://h?prefix=a&prefix=b", "given twice"},
	{"parameter without value", "redis://h?prefix=", "no value"},
	{"timeout is a number", "redis://h?timeout=250", "timeout: is no duration from 1ms to 1s"},
	{"timeout too long", "redis://h?timeout=2s", "timeout: is no duration from 1ms to 1s"},
	{"timeout too short", "redis://h?timeout=10us", "timeout: is no duration from 1ms to 1s"},
	{"control character", "redis://h\n", "control character"},
	{"too long", "redis://" + strings.Repeat("h", 5000), "may have 4096"},
}

func TestBadLines(t *testing.T) {
	for _, c := range badLines {
		t.Run(c.name, func(t *testing.T) {
			_, err := redisurl.Parse(c.line, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	for line, want := range map[string]time.Duration{"redis://h": 0, "redis-cluster://h?timeout=250ms": 250 * time.Millisecond, "redis://h?timeout=1s": time.Second} {
		target, err := redisurl.Parse(line, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Timeout(); got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// All faults are told at once.
func TestAllFaults(t *testing.T) {
	_, err := redisurl.Parse("redis://h:x/y?z=1", nil)
	for _, want := range []string{"address 1", "number of a database", "parameter 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
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
			target, err := redisurl.Parse(c.line, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := target.Option(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// FuzzParse: whatever the line is, a password behind a user's name is neither
// taken nor told, and what is shown reads back as the same servers.
func FuzzParse(f *testing.F) {
	for _, c := range badLines {
		f.Add(c.line)
	}
	f.Add("redis-sentinel://a,[::1]:2/m/4?prefix=x")
	f.Add("rediss://u@h/1?ca_file=/x")
	f.Fuzz(func(t *testing.T, line string) {
		target, err := redisurl.Parse(line, nil)
		if err != nil {
			if line != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error tells the password: %v", line, err)
			}
			return
		}
		if len(target.String()) > 4096 {
			return // ports and escapes have made it longer than a line may be
		}
		again, err := redisurl.Parse(target.String(), nil)
		if err != nil || again.String() != target.String() {
			t.Errorf("%q is shown as %q, which reads back as %v: %v", line, target, again, err)
		}
	})
}
