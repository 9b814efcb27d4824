// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pipe puts a pipe, whose opening waits for somebody to write, in the place of a
// file.
func pipe(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A pipe in the place of a configuration, or of a file that it names, is said to
// be one, and holds up neither the next configuration nor the stop.
func TestSitePipe(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	secret := filepath.Join(dir, "secret")
	for _, name := range []string{token, secret} {
		if err := os.WriteFile(name, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	yaml := fmt.Sprintf(`
store: {memory: {state: %q}}
admin: {address: 127.0.0.1:0, token_file: %q}
tokens: {hmac_file: %q}
rules: [{name: a, limits: 1000/min}]
`, filepath.Join(dir, "state"), token, secret)
	s := startSite(t, yaml)
	s.get(t, "/")
	for _, name := range []string{token, secret, s.file} {
		pipe(t, name)
		until(t, "the fault to be told", func() bool {
			return strings.Contains(fetch(t, http.DefaultClient, s.admin+"/readyz").body, name+" is a pipe")
		})
		if name != s.file {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.hurry <- syscall.SIGHUP
	s.forgive(t, "is a pipe")
	s.end(t)
	if _, err := os.Stat(filepath.Join(dir, "state")); err != nil {
		t.Error(err)
	}
}

// A configuration that takes for ever to read holds up the stop by a second at
// most, and the state is saved all the same.
func TestSiteStopsBesideAReload(t *testing.T) {
	dir := t.TempDir()
	state, cert := filepath.Join(dir, "state"), filepath.Join(dir, "cert.pem")
	s := startSite(t, fmt.Sprintf("store: {memory: {state: %q}}\nrules: [{name: a, limits: 1000/min}]\n", state))
	s.get(t, "/")
	pipe(t, cert)
	s.write(t, fmt.Sprintf("listen: {address: 127.0.0.1:0, tls: {cert: %q, key: %q}}\nrules: [{name: a, limits: 1000/min}]\n", cert, cert))
	s.hurry <- syscall.SIGHUP
	var writer *os.File
	until(t, "the certificate to be read", func() (reads bool) {
		var err error
		writer, err = os.OpenFile(cert, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	defer writer.Close() //nolint:errcheck // whoever reads goes on then
	s.end(t)
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
}
