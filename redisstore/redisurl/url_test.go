// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisurl_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/redisstore/redisurl"
)

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
	{"sentinel's user elsewhere", "redis://h?sentinel_user=x", "are for redis-sentinel://"},
	{"parameter twice", "redis://h?prefix=a&prefix=b", "given twice"},
	{"parameter without value", "redis://h?prefix=", "no valid value"},
	{"timeout is a number", "redis://h?timeout=250", "timeout: is no duration from 1ms to 1s"},
	{"timeout too long", "redis://h?timeout=2s", "timeout: is no duration from 1ms to 1s"},
	{"timeout too short", "redis://h?timeout=10us", "timeout: is no duration from 1ms to 1s"},
	{"control character", "redis://h\n", "control character"},
	{"too long", "redis://" + strings.Repeat("h", 5000), "use at most 4096"},
}

func TestBadLines(t *testing.T) {
	for _, c := range badLines {
		t.Run(c.name, func(t *testing.T) {
			_, err := redisurl.ParseLine(c.line, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error reports the password: %v", err)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	for line, want := range map[string]time.Duration{"redis://h": 0, "redis-cluster://h?timeout=250ms": 250 * time.Millisecond, "redis://h?timeout=1s": time.Second} {
		target, err := redisurl.ParseLine(line, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Timeout; got != want {
			t.Errorf("%s: got %v, want %v", line, got, want)
		}
	}
}

// TestAllFaults: all faults are returned at once.
func TestAllFaults(t *testing.T) {
	_, err := redisurl.ParseLine("redis://h:x/y?z=1", nil)
	for _, want := range []string{"address 1", "number of a database", "parameter 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

// TestVariable: unlike other URLs, one in a variable may hold a password, as platforms provide
// such URLs.
func TestVariable(t *testing.T) {
	const name = "REDIS_URL"
	for _, c := range []struct{ name, content, user, password, shown string }{
		{"user and password", "redis://me:" + secret + "@h:1/2", "me", secret, "redis://h:1/2"},
		{"password only", "rediss://:" + secret + "@h", "", secret, "rediss://h:6379"},
		{"password with an at sign", "redis://me:" + secret + "@" + secret + "@h", "me", secret + "@" + secret, "redis://h:6379"},
		{"escaped", "redis://a%40b:c%2Fd%3Fe%3Af%25@h", "a@b", "c/d?e:f%", "redis://h:6379"},
		{"colons in the password", "redis://me:a:b@h", "me", "a:b", "redis://h:6379"},
		{"a line of a file", "redis://:" + secret + "@h\n", "", secret, "redis://h:6379"},
		{"none", "redis-cluster://a,b?prefix=x", "", "", "redis-cluster://a:6379,b:6379"},
		{"of sentinels", "redis-sentinel://me:" + secret + "@a,b/m?timeout=1s&prefix=a%26b", "me", secret, "redis-sentinel://a:26379,b:26379/m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := redisurl.ParseLine("env:"+name, func(n string) string { return map[string]string{name: c.content}[n] })
			if err != nil {
				t.Fatal(err)
			}
			if u.User != c.user || u.Password != c.password || u.String() != c.shown {
				t.Errorf("got user %q, password %q, shown as %q", u.User, u.Password, u)
			}
			again, err := redisurl.Parse(u.Full())
			if err != nil || !reflect.DeepEqual(again, u) {
				t.Errorf("%+v reads back as %+v: %v", u, again, err)
			}
		})
	}
	// Without getenv, as when a file is checked elsewhere:
	if u, err := redisurl.ParseLine("env:REDIS_URL", nil); err != nil || u.String() != "env:REDIS_URL" {
		t.Errorf("unasked: got %v, %v", u, err)
	}
}

func TestBadVariables(t *testing.T) {
	for _, c := range []struct {
		name, line, content, password, want string
	}{
		{"no name", "env:", "", "", "env:REDIS_URL"},
		{"no name of a variable", "env:" + secret + "!", "", "", "env:REDIS_URL"},
		{"begins with a digit", "env:1A", "", "", "env:REDIS_URL"},
		{"not set", "env:A", "", "", "the variable A is not set"},
		{"names another", "env:A", "env:B", "", "the variable A: the URL must begin with"},
		{"slash in the password", "env:A", "redis://me:" + secret + "/" + secret + "@h", "", "%2F"},
		{"percent in the password", "env:A", "redis://me:" + secret + "%zz@h", "", "%25"},
		{"password twice", "env:A", "redis://me:" + secret + "@h", "another", "in the URL and in " + redisurl.PasswordVariable},
		{"password and its file", "env:A", "redis://me:" + secret + "@h?password_file=x", "", "in the URL and in password_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := redisurl.ParseLine(c.line, func(n string) string {
				return map[string]string{"A": c.content, redisurl.PasswordVariable: c.password}[n]
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// FuzzParse: for any line, a password after a user's name is neither accepted nor quoted, and
// the shown text reads back as the same servers.
func FuzzParse(f *testing.F) {
	for _, c := range badLines {
		f.Add(c.line)
	}
	f.Add("redis-sentinel://a,[::1]:2/m/4?prefix=x")
	f.Add("rediss://u@h/1?ca_file=/x")
	f.Add("rediss://u:" + secret + "%2F@h/1?prefix=%26x")
	f.Add("env:REDIS_URL")
	f.Fuzz(func(t *testing.T, line string) {
		if u, err := redisurl.Parse(line); err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", line, err)
			}
		} else if full := u.Full(); len(full) <= 4096 {
			if again, err := redisurl.Parse(full); err != nil || !reflect.DeepEqual(again, u) {
				t.Errorf("%q is %q, which reads back as %+v: %v", line, full, again, err)
			}
		}
		target, err := redisurl.ParseLine(line, nil)
		if err != nil {
			if line != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error reports the password: %v", line, err)
			}
			return
		}
		if len(target.String()) > 4096 {
			return // ports and escapes have made it too long
		}
		again, err := redisurl.ParseLine(target.String(), nil)
		if err != nil || again.String() != target.String() {
			t.Errorf("%q is shown as %q, which reads back as %v: %v", line, target, again, err)
		}
	})
}
