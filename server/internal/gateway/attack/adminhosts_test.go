// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestAdminHosts: no page in a browser reads the admin address by a name of the page's own.
func TestAdminHosts(t *testing.T) {
	t.Parallel()
	const (
		misdirected = 421 // the answer has a remedy
		forbidden   = 403 // for all but this machine, without a token
	)
	type row struct {
		path, host string
		want       int
	}
	rows := []row{
		{"/metrics", "127.0.0.1:{port}", passes},
		{"/metrics", "localhost:{port}", passes},
		{"/metrics", "LOCALHOST", passes},
		{"/metrics", "[::1]:{port}", passes},
		{"/", "evil.example", misdirected},
		{"/metrics", "evil.example", misdirected},
		{"/readyz", "evil.example", misdirected},
		{"/healthz", "evil.example", misdirected},
		{"/policy", "evil.example", forbidden},
		{"/v1/top", "evil.example", forbidden},
		{"/metrics", "evil.example:{port}", misdirected},
		{"/metrics", "localhost.evil.example", misdirected},
		{"/metrics", "127.0.0.1.evil.example", misdirected},
	}
	name := func(r *row) string { return r.path + " of " + r.host }
	g := start(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules: [{name: all, by: ip, limits: 1/h}]\n")
	_, port, err := net.SplitHostPort(g.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Run(name(&r), func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", g.admin)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // the other side may have
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Error(err)
			}
			host := strings.ReplaceAll(r.host, "{port}", port)
			if _, err := io.WriteString(conn, "GET "+r.path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			got, err := readReply(bufio.NewReader(conn))
			if err != nil {
				t.Fatal(err)
			}
			if got.status != r.want || r.want == misdirected && !strings.Contains(got.body, "admin.hosts") {
				t.Errorf("got %d %.80q, want %d", got.status, got.body, r.want)
			}
		})
	}
}
