// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest

import (
	"syscall"
	"testing"
)

// Stop suspends the process until [Server.Continue].
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
}

// Continue resumes the process after [Server.Stop].
func (s *Server) Continue(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.Process().Signal(sig); err != nil {
		t.Fatal(err)
	}
}
