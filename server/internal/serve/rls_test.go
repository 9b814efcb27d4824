// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// rlsLimits are limits as envoyproxy/ratelimit reads them.
const rlsLimits = `
domain: envoy
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: %d}}
  - {key: team, rate_limit: {unit: year, requests_per_unit: 2}}
`

// askRLS asks about one user, and returns the code.
func askRLS(t *testing.T, c *grpc.ClientConn) (pb.RateLimitResponse_Code, error) {
	t.Helper()
	r, err := pb.NewRateLimitServiceClient(c).ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "envoy", Descriptors: []*commonpb.RateLimitDescriptor{
		{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: "ada"}}},
	}})
	return r.GetOverallCode(), err
}

func dialRLS(t *testing.T, url string, c credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	_, address, _ := strings.Cut(url, "://")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return conn
}

// TestRLS: Envoy asks over gRPC with and without TLS, and in JSON, and all have one budget. A
// changed file of limits is read again.
func TestRLS(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"memory", "redis"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			store := "memory"
			if of == "redis" {
				store = fmt.Sprintf("{redis: {url: %q}}", redistest.Start(t, redistest.Redis(t)).URL())
			}
			cert, key, pool := testkit.CertificateFiles(t)
			limits := filepath.Join(t.TempDir(), "limits.yaml")
			write := func(perYear int) { servetest.Replace(t, limits, fmt.Sprintf(rlsLimits, perYear)) }
			write(3)
			s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", serve: rls, rls: {files: %q, envoy_names: true}}
  - {address: "127.0.0.2:0", serve: rls, rls: {files: %q}, tls: {cert: %q, key: %q}}
store: %s
rules: []
`, limits, filepath.Dir(limits), cert, key, store))
			plain := dialRLS(t, s.URLs[0], insecure.NewCredentials())
			secure := dialRLS(t, s.URLs[1], credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}))
			for i, want := range []pb.RateLimitResponse_Code{1, 1, 1, 2, 2} {
				code, err := askRLS(t, []*grpc.ClientConn{plain, secure}[i%2])
				if err != nil || code != want {
					t.Errorf("request %d: %v, %v", i+1, code, err)
				}
			}
			body := `{"domain": "envoy", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}`
			req := servetest.Request(t.Context(), t, http.MethodPost, s.URLs[0]+"/json", strings.NewReader(body))
			if a := servetest.Do(t, http.DefaultClient, req); a.Status != http.StatusTooManyRequests {
				t.Errorf("JSON: %+v", a)
			}
			m := s.Metrics(t) // of the three requests at the first address, and the one in JSON
			if all, over := m[`ratelimit_service_rate_limit_total_hits{domain="envoy",key1="user",key2=""}`], m[`ratelimit_service_rate_limit_over_limit{domain="envoy",key1="user",key2=""}`]; all != 4 || over != 2 || m["ratelimit_service_config_load_success"] != 2 {
				t.Errorf("%v hits, %v over", all, over)
			}
			write(1_000_000)
			testkit.Until(t, "the limits to be read again", func() bool {
				code, err := askRLS(t, plain) // of which 6 were counted
				return err == nil && code == pb.RateLimitResponse_OK
			})
		})
	}
}

// TestRLSStatisticsEnd: the metrics under Envoy's names end with envoy_names.
func TestRLSStatisticsEnd(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	testkit.WriteFile(t, limits, fmt.Sprintf(rlsLimits, 3))
	yaml := fmt.Sprintf("listen: {address: %q, serve: rls, rls: {files: %q, envoy_names: true}}\nrules: []\n", testkit.FreeAddress(t), limits)
	s := servetest.Start(t, yaml)
	if _, err := askRLS(t, dialRLS(t, s.URL, insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	series := func() (n int) {
		for name := range s.Metrics(t) {
			if strings.HasPrefix(name, "ratelimit_service_") {
				n++
			}
		}
		return n
	}
	if n := series(); n == 0 {
		t.Error("no series")
	}
	s.ChangeTo(t, strings.ReplaceAll(yaml, "envoy_names: true", "envoy_names: false"))
	if n := series(); n != 0 {
		t.Errorf("%d series", n)
	}
}

// TestRLSOwn: limits of other kinds, slots, and charges of all or none are decided by both stores,
// on all nodes alike.
func TestRLSOwn(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"memory", "redis"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			store := "memory"
			if of == "redis" {
				store = fmt.Sprintf("{redis: {url: %q}}", redistest.Start(t, redistest.Redis(t)).URL())
			}
			limits := filepath.Join(t.TempDir(), "limits.yaml")
			testkit.WriteFile(t, limits, `
domain: envoy
descriptors:
  - {key: log, rate_limit: {limits: [2/365d sliding-log, 100/365d]}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: user, descriptors: [{key: owner, rate_limit: {slots: 1, ttl: 1s}}]}
  - {key: job, descriptors: [{key: owner, rate_limit: {slots: 1, ttl: 24h}}]}
`)
			s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", serve: rls, rls: {files: %q, envoy_names: true}}
  - {address: "127.0.0.2:0", serve: rls, rls: {files: %q, together: true}}
store: %s
rules: []
`, limits, limits, store))
			ask := func(at int, descriptors ...string) string {
				t.Helper()
				q := &pb.RateLimitRequest{Domain: "envoy"}
				for _, text := range descriptors {
					of := &commonpb.RateLimitDescriptor{}
					text, of.IsNegativeHits = strings.CutPrefix(text, "-")
					for e := range strings.SplitSeq(text, ",") {
						key, value, _ := strings.Cut(e, "=")
						of.Entries = append(of.Entries, &commonpb.RateLimitDescriptor_Entry{Key: key, Value: value})
					}
					q.Descriptors = append(q.Descriptors, of)
				}
				r, err := pb.NewRateLimitServiceClient(dialRLS(t, s.URLs[at], insecure.NewCredentials())).ShouldRateLimit(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprint(r.GetOverallCode())
				for _, s := range r.GetStatuses() {
					got += fmt.Sprintf(" %d:%d", s.GetCode(), s.GetLimitRemaining())
				}
				return got
			}
			for i, step := range []struct {
				at                int
				descriptors, want string
			}{
				{1, "log=a year=a", "OK 1:1 1:2"},
				{0, "log=a", "OK 1:0"},
				{1, "log=a year=a", "OVER_LIMIT 2:0 1:2"},
				{0, "-log=a", "OK 1:1"},
				{1, "log=a year=a job=a,owner=1", "OK 1:0 1:1 1:0"},
				{1, "year=a job=a,owner=2", "OVER_LIMIT 1:1 2:0"},
				{0, "year=a job=a,owner=2", "OVER_LIMIT 1:0 2:0"},
				{1, "year=a -job=a,owner=1", "OVER_LIMIT 2:0 1:1"},
				{0, "-job=a,owner=1 job=a,owner=2", "OK 1:1 1:0"},
				{0, "year=a log=b", "OVER_LIMIT 2:0 1:1"}, // counted, as in the service
				{0, "-year=a", "OK 1:0"},
				{0, "-year=a", "OK 1:1"},
				{0, "user=a,owner=1", "OK 1:0"},
			} {
				if got := ask(step.at, strings.Fields(step.descriptors)...); got != step.want {
					t.Errorf("step %d: %s, want %s", i+1, got, step.want)
				}
			}
			testkit.Until(t, "the slot of an owner that has crashed", func() bool { return ask(0, "user=a,owner=2") == "OK 1:0" })
			m := s.Metrics(t)
			if all, over := m[`ratelimit_service_rate_limit_total_hits{domain="envoy",key1="job",key2="owner"}`], m[`ratelimit_service_rate_limit_over_limit{domain="envoy",key1="job",key2="owner"}`]; all != 2 || over != 1 {
				t.Errorf("slots: %v hits, %v over", all, over)
			}
		})
	}
}

// TestRLSBrought: limits that requests bring make no series of their own.
func TestRLSBrought(t *testing.T) {
	t.Parallel()
	limits := testkit.TempFile(t, "limits.yaml", "domain: envoy")
	s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", serve: rls, rls: {files: %q}}
  - {address: "127.0.0.2:0", serve: rls, rls: {files: %q, together: true}}
rules: []
`, limits, limits))
	for _, url := range s.URLs {
		c := pb.NewRateLimitServiceClient(dialRLS(t, url, insecure.NewCredentials()))
		bring := func(i int) {
			t.Helper()
			_, err := c.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "envoy", Descriptors: []*commonpb.RateLimitDescriptor{{
				Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint(i)}},
				Limit:   &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(i), Unit: typepb.RateLimitUnit_DAY},
			}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 { // 0 denies
			bring(i)
		}
		before := len(s.Metrics(t))
		for i := range 300 {
			bring(3 + i)
		}
		if after := len(s.Metrics(t)); after > before {
			t.Errorf("%d series, %d before", after, before)
		}
	}
}

// TestRLSStoreFails: Envoy is told that the store fails, and decides by its own policy.
func TestRLSStoreFails(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, fmt.Appendf(nil, rlsLimits, 9), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, fmt.Sprintf(`
listen: {address: "127.0.0.1:0", serve: rls, rls: {files: %q}}
store: {redis: {url: %q}}
rules: []
`, limits, redis.URL()))
	conn := dialRLS(t, s.URLs[0], insecure.NewCredentials())
	if code, err := askRLS(t, conn); err != nil || code != pb.RateLimitResponse_OK {
		t.Fatalf("%v, %v", code, err)
	}
	redis.Kill(t)
	if _, err := askRLS(t, conn); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
}

// TestRLSFolder: a new file in a folder of limits is read, and the limits of one that is gone
// end.
func TestRLSFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	testkit.WriteFile(t, filepath.Join(folder, "one.yaml"), "domain: one")
	s := servetest.Start(t, fmt.Sprintf(`
listen: {address: "127.0.0.1:0", serve: rls, rls: {files: %q}}
rules: []
`, folder))
	conn := dialRLS(t, s.URLs[0], insecure.NewCredentials())
	until := func(what string, want pb.RateLimitResponse_Code) {
		t.Helper()
		testkit.Until(t, what, func() bool {
			code, err := askRLS(t, conn)
			return err == nil && code == want
		})
	}
	until("no limit", pb.RateLimitResponse_OK)
	servetest.Replace(t, filepath.Join(folder, "two.yaml"), fmt.Sprintf(rlsLimits, 0)+"unit: day\n")
	until("the new file", pb.RateLimitResponse_OVER_LIMIT)
	s.ExpectLog(t, "two.yaml line=6 column=1 problem=\"unit has no effect in the file; it belongs in rate_limit\"")
	if err := os.Remove(filepath.Join(folder, "two.yaml")); err != nil {
		t.Fatal(err)
	}
	until("the file to be gone", pb.RateLimitResponse_OK)
}

// TestRLSFaults: the faults of the files are reported with those of the configuration.
func TestRLSFaults(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("domain: a\ndescriptors:\n  - {key: k, rate_limit: {unit: eon}}\n  - {value: v}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("f", fmt.Appendf(nil, "listen: {address: 127.0.0.1:0, serve: rls, rls: {files: [%s, none.yaml]}}\nrules: []\n", limits))
	if err != nil {
		t.Fatal(err)
	}
	err = serve.CheckFiles(c)
	testkit.Contains(t, fmt.Sprint(err), "no such file")
	c.Listen[0].RLS.Files = c.Listen[0].RLS.Files[:1]
	err = serve.CheckFiles(c)
	testkit.Contains(t, fmt.Sprint(err), "f:1:", limits+":3:33: invalid rate limit unit 'eon'", limits+":4:5: descriptor has empty key")
}

// TestRLSRules: rules decide descriptors, several at once, and have one budget at all fronts.
func TestRLSRules(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"memory", "redis"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			store := "memory"
			if of == "redis" {
				store = fmt.Sprintf("{redis: {url: %q}}", redistest.Start(t, redistest.Redis(t)).URL())
			}
			limits := filepath.Join(t.TempDir(), "limits.yaml")
			if err := os.WriteFile(limits, fmt.Appendf(nil, rlsLimits, 2), 0o600); err != nil {
				t.Fatal(err)
			}
			s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", serve: rls, rls: {files: %q}}
  - {address: "127.0.0.2:0", serve: api}
  - {address: "127.0.0.3:0"}
upstream: http://127.0.0.1:9
store: %s
rules:
  - {name: tenant, match: {host: envoy, descriptor: {tenant: "*"}}, by: descriptor.tenant, limits: 3/365days fixed-window}
  - {name: ip, by: ip, limits: 1/hour}
`, limits, store))
			ask := func(negative bool, descriptors ...string) string {
				t.Helper()
				q := &pb.RateLimitRequest{Domain: "envoy"}
				for _, text := range descriptors {
					key, value, _ := strings.Cut(text, "=")
					q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: key, Value: value}}, IsNegativeHits: negative})
				}
				r, err := pb.NewRateLimitServiceClient(dialRLS(t, s.URLs[0], insecure.NewCredentials())).ShouldRateLimit(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				text := ""
				for _, s := range r.GetStatuses() {
					text += fmt.Sprintf("%v%d ", s.GetCode(), s.GetLimitRemaining())
				}
				return text
			}
			take := func(want string) {
				t.Helper()
				body := `{"rule": "tenant", "host": "envoy", "descriptor": {"tenant": "a"}}`
				req := servetest.Request(t.Context(), t, http.MethodPost, s.URLs[1]+"/v1/take", strings.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				testkit.Contains(t, servetest.Do(t, http.DefaultClient, req).Body, want)
			}
			many := make([]string, 12)
			for i := range many {
				many[i] = fmt.Sprintf("tenant=%d", i)
			}
			for i, step := range []struct{ got, want string }{
				{ask(false, "tenant=a", "tenant=b", "user=ada", "ip=a"), "OK2 OK2 OK1 OK0 "},
				{ask(false, "tenant=a"), "OK1 "},
				{ask(false, many...), strings.Repeat("OK2 ", len(many))},
			} {
				if step.got != step.want {
					t.Errorf("step %d: %s, want %s", i+1, step.got, step.want)
				}
			}
			take(`"remaining":0`)
			if got := ask(false, "tenant=a"); got != "OVER_LIMIT0 " {
				t.Error(got)
			}
			take(`"allowed":false`)
			if got := ask(true, "tenant=a"); got != "OK1 " {
				t.Error(got)
			}
			take(`"remaining":0`)
			if a := servetest.Do(t, http.DefaultClient, servetest.Request(t.Context(), t, http.MethodGet, s.URLs[2], http.NoBody)); a.Status != http.StatusBadGateway {
				t.Errorf("%+v", a) // the rule of descriptors does not refuse it
			}
		})
	}
}
