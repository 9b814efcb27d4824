// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// startNginx starts nginx on a free port until the test ends, and returns its address and its
// configuration: text with DIR replaced by a writable directory and PORT by the port.
func startNginx(t *testing.T, text string) (base, config string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("nginx is not installed; install it with: apt-get install nginx")
	}
	dir := t.TempDir()
	for _, name := range []string{"key/x", "pair", "most/x", "dry/x", "other"} {
		file := filepath.Join(dir, "root", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("ok"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	address := testkit.FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	config = strings.NewReplacer("DIR", dir, "PORT", port).Replace(text)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-p", dir, "-c", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err == nil {
			t.Error("nginx ended by itself")
		}
	})
	testkit.Until(t, "nginx to listen", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("nginx has ended: %v\n%s", err, stderr.String())
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return "http://" + address, config
}
