// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// blocked waits until so many clients wait for the server to go on.
func blocked(t *testing.T, client rueidis.Client, n string) {
	t.Helper()
	for range 1000 {
		info, err := client.Do(t.Context(), client.B().Info().Section("clients").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info, "blocked_clients:"+n+"\r\n") {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	list, err := client.Do(t.Context(), client.B().ClientList().Build()).ToString()
	t.Fatalf("never %s clients that wait for the server; %v\n%s", n, err, list)
}

// TestImpatientCallersHurtNobody: a caller whose deadline ends while the server
// hangs leaves by itself. The connection that it shares with others lives on.
func TestImpatientCallersHurtNobody(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: 30 * time.Second})
	l, client := testkit.Limiter(t, s, "scope", "1000/h"), server.Client(t)
	release := holdUp(t, client)
	impatient := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := l.Take(ctx, "a", 1)
		impatient <- err
	}()
	blocked(t, client, "1")
	patient := make(chan error)
	go func() {
		_, err := l.Take(t.Context(), "b", 1)
		patient <- err
	}()
	if err := <-impatient; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller in a hurry: got %v", err)
	}
	release()
	if err := <-patient; err != nil {
		t.Errorf("another caller: got %v", err)
	}
}

// TestLateCallersHaveTheirTime: a caller that comes late to the line behind a call that
// hangs is not sent away with those who have waited as long as they may.
func TestLateCallersHaveTheirTime(t *testing.T) {
	const timeout = 4 * time.Second
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: timeout})
	l, client := testkit.Limiter(t, s, "scope", "1000/h"), server.Client(t)
	release := holdUp(t, client)
	take := func() <-chan error {
		result := make(chan error, 1)
		go func() {
			_, err := l.Take(context.Background(), "k", 1)
			result <- err
		}()
		return result
	}
	first := take()
	blocked(t, client, "1")
	second := take()
	<-time.After(timeout / 2)
	third := take()
	for _, result := range []<-chan error{first, second} {
		if err := <-result; err == nil {
			t.Error("the server hangs, but there was an answer")
		}
	}
	release()
	if err := <-third; err != nil {
		t.Errorf("who came later, and whose time is not over: got %v", err)
	}
}
