// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package limittest

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const asExample = "LIMITTEST_EXAMPLE"

// Main is the TestMain of an example, whose tests start it.
func Main(m *testing.M, main func()) {
	if os.Getenv(asExample) == "" {
		os.Exit(m.Run())
	}
	os.Args = []string{os.Args[0], "-listen", "127.0.0.1:0"}
	main()
}

var urls = regexp.MustCompile(`http://\S+`)

// Example starts the program, and logs in six times as it proposes, but with a
// client of its own, by a body of a media type. It may fail three times.
func Example(t *testing.T, media, body string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), asExample+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url := urls.FindString(line)
	if err != nil || !strings.Contains(line, "curl ") || url == "" {
		t.Fatalf("printed %q, %v; want a line of curl", line, err)
	}
	var got []int
	for range 6 {
		resp, err := http.Post(url, media, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		got = append(got, resp.StatusCode)
	}
	if want := []int{401, 401, 401, 429, 429, 429}; !slices.Equal(got, want) {
		t.Errorf("six log-ins are answered %v, want %v", got, want)
	}
}
