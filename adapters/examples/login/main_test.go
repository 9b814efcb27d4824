// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// asProgram makes a test process run the program.
const asProgram = "SLUICE_LOGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestLogin starts the program with each framework and sends wrong passwords: three log-ins
// may fail.
func TestLogin(t *testing.T) {
	client := http.Client{Timeout: time.Minute}
	for name, f := range frameworks {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-with", name, "-listen", "127.0.0.1:0")
			cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Wait() }) // it is killed
			line, err := bufio.NewReader(out).ReadString('\n')
			url := regexp.MustCompile(`http://\S+`).FindString(line)
			if err != nil || !strings.Contains(line, "curl ") || url == "" {
				t.Fatalf("printed %q, %v; want a line of curl", line, err)
			}
			var got []int
			for range 6 {
				resp, err := client.Post(url, f.media, strings.NewReader(f.body))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, resp.StatusCode)
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if want := []int{401, 401, 401, 429, 429, 429}; !slices.Equal(got, want) {
				t.Errorf("six log-ins are answered %v, want %v", got, want)
			}
		})
	}
}
