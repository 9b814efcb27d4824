// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package connectlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/connectlimit"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/remote"
)

// slow is a store that takes some milliseconds, whatever its caller does.
type slow struct{ *memstore.Store }

func (s slow) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	time.Sleep(3 * time.Millisecond)
	return s.Store.Take(ctx, req)
}

// TestShortDeadlineLiftsNoLimit: calls whose timeout is shorter than the store's answer do not
// reach the handler beyond the limit, even if the failure policy is open.
func TestShortDeadlineLiftsNoLimit(t *testing.T) {
	for protocol, opt := range protocols {
		t.Run(protocol, func(t *testing.T) {
			store, err := remote.Wrap(slow{memstore.New(memstore.Options{})}, remote.Options{Policy: sluice.FailOpen, Timeout: testkit.Ceiling, Detach: true, MaxInFlight: 1 << 16})
			if err != nil {
				t.Fatal(err)
			}
			testkit.Closed(t, store)
			mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.MustParseLimit("5/h sliding-log"))
			if err != nil {
				t.Fatal(err)
			}
			var ran atomic.Int64
			const path = "/test.v1.Logins/Unary"
			server := httptest.NewUnstartedServer(connectlimit.New(mw)(connect.NewUnaryHandler(path, func(_ context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
				ran.Add(1)
				return connect.NewResponse(r.Msg), nil
			})))
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			t.Cleanup(server.Close)
			client := newCaller(t, server.URL, opt).unary
			var group sync.WaitGroup
			for after := time.Microsecond; after < 10*time.Millisecond; after += after/2 + time.Microsecond {
				for range 10 {
					group.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), after)
						defer cancel()
						_, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("ok")))
						switch connect.CodeOf(err) {
						case connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeResourceExhausted:
						default:
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			group.Wait()
			testkit.Until(t, "a denial", func() bool { // units granted too late may have been given back
				_, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("ok")))
				return connect.CodeOf(err) == connect.CodeResourceExhausted
			})
			if n := ran.Load(); n > 5 {
				t.Errorf("%d handlers ran, want at most 5", n)
			}
		})
	}
}
