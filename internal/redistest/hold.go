// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// HoldUp makes servers delay writes until resume is called.
func HoldUp(t testing.TB, servers ...*Server) (resume func()) {
	t.Helper()
	var clients []*Client
	for _, s := range servers {
		client := s.Client(t)
		Do(t, client, "CLIENT", "PAUSE", "600000", "WRITE")
		clients = append(clients, client)
	}
	return func() {
		for _, client := range clients {
			Do(t, client, "CLIENT", "UNPAUSE")
		}
	}
}

// AwaitBlocked waits until n clients, a number as text, wait for the server to resume.
func AwaitBlocked(t testing.TB, s *Server, n string) {
	t.Helper()
	client := s.Client(t)
	testkit.Until(t, n+" clients that wait for the server", func() bool {
		return strings.Contains(Do(t, client, "INFO", "clients"), "blocked_clients:"+n+"\r\n")
	})
}

// Keys returns the names of all keys of a server.
func Keys(t testing.TB, client *Client) []string {
	t.Helper()
	return texts(t, client.Do(t.Context(), "KEYS", "*"), "KEYS")
}
