// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/front/rls"
	"github.com/sluicegate/sluice/server/internal/gateway"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// bed is a front that serves at a free port.
type bed struct {
	pb.RateLimitServiceClient
	t       *testing.T
	front   front.Front
	conn    *grpc.ClientConn
	address string
	store   *counting
	now     atomic.Int64 // seconds

	mu      sync.Mutex
	records []front.Record
}

// counting is a store that counts its calls, and fails on request.
type counting struct {
	sluice.BatchStore
	calls atomic.Int64
	err   atomic.Pointer[error]
	away  atomic.Bool   // takes pass, as nobody can count
	asked chan struct{} // if not nil, Take sends to it and returns when its context ends
}

func (s *counting) Take(ctx context.Context, q sluice.Request) (sluice.Decision, error) {
	s.calls.Add(1)
	if s.asked != nil {
		s.asked <- struct{}{}
		<-ctx.Done()
		return sluice.Decision{}, ctx.Err()
	}
	if err := s.err.Load(); err != nil {
		return sluice.Decision{}, *err
	}
	if s.away.Load() {
		for i := range q.Outcomes.All() {
			(*q.Outcomes)[i] = sluice.Outcome{Allowed: true}
		}
		return sluice.Decision{Allowed: true, Degraded: true}, nil
	}
	return s.BatchStore.Take(ctx, q)
}

func (s *counting) TakeBatch(ctx context.Context, q []sluice.Request, out []sluice.Result) error {
	s.calls.Add(1)
	if err := s.err.Load(); err != nil {
		return *err
	}
	return s.BatchStore.TakeBatch(ctx, q, out)
}

func (s *counting) Slot(ctx context.Context, q sluice.SlotRequest) (sluice.SlotDecision, error) {
	s.calls.Add(1)
	if err := s.err.Load(); err != nil {
		return sluice.SlotDecision{}, *err
	}
	return s.BatchStore.(sluice.SlotStore).Slot(ctx, q)
}

// start serves limits at a free port of this machine, at the instant 1,000,000 s.
func start(t *testing.T, change func(*config.Listener)) *bed {
	t.Helper()
	return startBy(t, nil, change)
}

// startBy is start with rules.
func startBy(t *testing.T, rules *policy.Policy, change func(*config.Listener)) *bed {
	t.Helper()
	b := &bed{t: t}
	b.now.Store(1_000_000)
	now := func() time.Time { return time.Unix(b.now.Load(), 0) }
	b.store = &counting{BatchStore: memstore.New(memstore.Options{Now: now})}
	kind := new(rls.RLS).Kind(&httpserver.Bounds{Log: slog.New(slog.DiscardHandler), Lingering: gateway.NewLingering(10)})
	c := &config.Listener{RLS: config.RLS{Files: []string{filepath.Join(t.TempDir(), "limits.yaml")}}}
	if err := os.WriteFile(c.RLS.Files[0], []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	var err error
	if b.front, err = kind.New(c); err != nil {
		t.Fatal(err)
	}
	sink := front.SinkFunc(func(_ context.Context, r *front.Record) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.records = append(b.records, *r)
	})
	use, err := b.front.Prepare(&front.Snapshot{
		Config: &config.Config{}, Listener: c, Policy: rules, Store: b.store, Sinks: []front.Sink{sink}, Now: now, OnError: func(context.Context, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	use()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.front.Serve(b.front.Listen(l)) }()
	if b.conn, err = grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	b.RateLimitServiceClient = pb.NewRateLimitServiceClient(b.conn)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(b.conn.Close(), b.front.Shutdown(ctx), b.front.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return b
}

// request makes a request of descriptors such as a=1,b=2 of the domain d.
func request(descriptors ...string) *pb.RateLimitRequest {
	q := &pb.RateLimitRequest{Domain: "d"}
	for _, text := range descriptors {
		of := &commonpb.RateLimitDescriptor{}
		for e := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(e, "=")
			of.Entries = append(of.Entries, &commonpb.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		q.Descriptors = append(q.Descriptors, of)
	}
	return q
}

// want asks, and compares the answer with one in JSON.
func (b *bed) want(q *pb.RateLimitRequest, text string) {
	b.t.Helper()
	got, err := b.ShouldRateLimit(b.t.Context(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	want := &pb.RateLimitResponse{}
	if err := protojson.Unmarshal([]byte(text), want); err != nil {
		b.t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		have, _ := protojson.Marshal(got)
		b.t.Errorf("%s\nwant %s", have, text)
	}
}

const limits = `
domain: d
descriptors:
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 3, name: h}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: zero, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: quota, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: over, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: h}]}}
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: week, requests_per_unit: 2}}
  - {key: month, metadata: {a: {b: 1}, c: [x]}, rate_limit: {unit: month, requests_per_unit: 9}}
  - {key: year, metadata: {a: {b: 2, d: 3}}, rate_limit: {unit: year, requests_per_unit: 9}}
`

// TestWindow: windows are those of the clock, and denied hits count in them.
func TestWindow(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	at := `"currentLimit": {"name": "h", "unit": "HOUR", "requestsPerUnit": 3}, "durationUntilReset": `
	b.want(request("hour=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, `+at+`"800s"}]}`)
	q := request("hour=a")
	q.HitsAddend = 5
	b.want(q, `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+at+`"800s"}]}`)
	b.now.Add(799)
	b.want(request("hour=a"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+at+`"1s"}]}`)
	b.want(request("hour=b"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, `+at+`"1s"}]}`)
	b.now.Add(1)
	b.want(request("hour=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, `+at+`"3600s"}]}`)
	b.want(request("zero=a"), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", "currentLimit": {"unit": "SECOND"}, "durationUntilReset": "1s"}]}`)
	b.want(request("free=a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 4294967295}]}`)
	b.want(request("other=a"), `{"overallCode": "OK", "statuses": [{"code": "OK"}]}`)
	q = request("hour=a")
	q.Domain = "e"
	b.want(q, `{"overallCode": "OK", "statuses": [{"code": "OK"}]}`)
}

// TestHits: a descriptor's own number of hits counts, 0 looks, and negative hits come back.
func TestHits(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	hits := func(n uint64, negative bool) *pb.RateLimitRequest {
		q := request("hour=a")
		q.HitsAddend, q.Descriptors[0].HitsAddend, q.Descriptors[0].IsNegativeHits = 7, wrapperspb.UInt64(n), negative
		return q
	}
	for i, step := range []struct {
		hits     uint64
		negative bool
		left     uint32
		over     bool
	}{
		{0, false, 3, false},
		{2, false, 1, false},
		{0, false, 1, false},
		{1, false, 0, false},
		{0, false, 0, false}, // as many as the limit
		{2, false, 0, true},
		{0, false, 0, true}, // more
		{1, true, 0, false}, // 4 are left: those denied have counted
		{0, false, 0, true},
		{2, true, 1, false},
		{9, true, 3, false}, // never below 0
		{3, false, 0, false},
		{0, true, 0, false},
	} {
		got, err := b.ShouldRateLimit(t.Context(), hits(step.hits, step.negative))
		if err != nil {
			t.Fatal(err)
		}
		if over := got.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT; over != step.over || got.GetStatuses()[0].GetLimitRemaining() != step.left {
			t.Errorf("step %d: %v, want %+v", i+1, got, step)
		}
	}
}

// TestSeveral: each descriptor is decided by itself, in one call of the store.
func TestSeveral(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	overall := func(q *pb.RateLimitRequest) string {
		t.Helper()
		before := b.store.calls.Load()
		r, err := b.ShouldRateLimit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if n := b.store.calls.Load() - before; n != 1 {
			t.Errorf("%d calls of the store", n)
		}
		text := r.GetOverallCode().String()
		for _, s := range r.GetStatuses() {
			text += " " + s.GetCode().String()
		}
		return text
	}
	for _, step := range []struct{ descriptors, want string }{
		{"hour=a day=a hour=b", "OK OK OK OK"},
		{"hour=a hour=a day=a", "OK OK OK OK"},
		{"hour=a day=a", "OVER_LIMIT OVER_LIMIT OK"},
		{"hour=a over=a", "OK OK OK"}, // the first is replaced
		{"shadow=a", "OK OK"},
		{"shadow=a", "OK OK"},
		{"quota=a quota=b", "OK OK OK"},
		{"quota=a quota=c", "OK OVER_LIMIT OK"}, // not all of them
		{"quota=a quota=b", "OVER_LIMIT OVER_LIMIT OVER_LIMIT"},
		{"quota=a hour=c", "OVER_LIMIT OVER_LIMIT OK"}, // all of those with quota_mode
		{"files=files/a files=files/b files=files/c", "OVER_LIMIT OK OK OVER_LIMIT"},
	} {
		if got := overall(request(strings.Fields(step.descriptors)...)); got != step.want {
			t.Errorf("%s: %s, want %s", step.descriptors, got, step.want)
		}
	}
	many := make([]string, 10)
	for i := range many {
		many[i] = "day=" + string(rune('b'+i))
	}
	if got := overall(request(many...)); got != "OK"+strings.Repeat(" OK", 10) {
		t.Error(got)
	}
}

// TestBrought: a request may bring the limit of a descriptor.
func TestBrought(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	bring := func(unit typepb.RateLimitUnit) *pb.RateLimitRequest {
		q := request("hour=a")
		q.Descriptors[0].Limit = &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: unit}
		return q
	}
	at := `"currentLimit": {"unit": "DAY", "requestsPerUnit": 1}, "durationUntilReset": "36800s"}]}`
	b.want(bring(typepb.RateLimitUnit_DAY), `{"overallCode": "OK", "statuses": [{"code": "OK", `+at)
	b.want(bring(typepb.RateLimitUnit_DAY), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+at)
	if _, err := b.ShouldRateLimit(t.Context(), bring(typepb.RateLimitUnit_UNKNOWN)); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
	for _, together := range []bool{false, true} {
		b := start(t, func(l *config.Listener) { l.RLS.Together = together })
		several := func(n uint32) *pb.RateLimitRequest {
			q := bring(typepb.RateLimitUnit_HOUR)
			q.Descriptors[0].Limit.UnitMultiplier = wrapperspb.UInt32(n)
			return q
		}
		of := `"currentLimit": {"unit": "HOUR", "unitMultiplier": 3, "requestsPerUnit": 1}, "durationUntilReset": `
		b.want(several(3), `{"overallCode": "OK", "statuses": [{"code": "OK", `+of+`"4400s"}]}`) // 3 hours of the clock
		b.now.Add(4399)
		b.want(several(3), `{"overallCode": "OVER_LIMIT", "statuses": [{"code": "OVER_LIMIT", `+of+`"1s"}]}`)
		b.now.Add(1)
		b.want(several(3), `{"overallCode": "OK", "statuses": [{"code": "OK", `+of+`"10800s"}]}`)
		b.want(several(1), `{"overallCode": "OK", "statuses": [{"code": "OK", "currentLimit": {"unit": "HOUR", "requestsPerUnit": 1}, "durationUntilReset": "3600s"}]}`)
		if _, err := b.ShouldRateLimit(t.Context(), several(366*24+1)); status.Code(err) != codes.InvalidArgument {
			t.Error(err)
		}
	}
}

// TestLongValues: values as long as Envoy sends them are decided, each by itself, as a client whose
// request is refused would pass.
func TestLongValues(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	long := strings.Repeat("ä", 30_000)
	all := func(end string) *pb.RateLimitRequest {
		return request("hour="+long+end, "day="+long+end, "zero2="+long, "x="+long, "y="+long, "z="+long)
	}
	at := `"currentLimit": {"name": "h", "unit": "HOUR", "requestsPerUnit": 3}, "durationUntilReset": "800s"}, {"code": "OK", `
	day := `"currentLimit": {"unit": "DAY", "requestsPerUnit": 10}, "durationUntilReset": "36800s"}, {"code": "OK"}, {"code": "OK"}, {"code": "OK"}, {"code": "OK"}]}`
	b.want(all("a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, `+at+`"limitRemaining": 9, `+day)
	b.want(all("a"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 1, `+at+`"limitRemaining": 8, `+day)
	b.want(all("b"), `{"overallCode": "OK", "statuses": [{"code": "OK", "limitRemaining": 2, `+at+`"limitRemaining": 9, `+day)
}

func TestFaultyRequests(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	many := request(make([]string, 257)...)
	large := request("hour=a")
	large.Descriptors[0].HitsAddend = wrapperspb.UInt64(1_000_000_001)
	for want, q := range map[string]*pb.RateLimitRequest{
		"rate limit domain must not be empty":                               {},
		"rate limit descriptor list must not be empty":                      {Domain: "d"},
		"257 descriptors; at most 256 are decided":                          many,
		"descriptor 1: hits_addend is 1000000001; it is at most 1000000000": large,
	} {
		_, err := b.ShouldRateLimit(t.Context(), q)
		if said := status.Convert(err); said.Code() != codes.InvalidArgument || said.Message() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	failed := errors.New("no store")
	b.store.err.Store(&failed)
	for _, q := range []*pb.RateLimitRequest{request("hour=a"), request("hour=a", "day=a")} {
		if _, err := b.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	t.Run("shadow", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(l *config.Listener) { l.RLS.Shadow = true })
		b.want(request("zero=a"), `{"overallCode": "OK", "statuses": [{"code": "OVER_LIMIT", "currentLimit": {"unit": "SECOND"}, "durationUntilReset": "1s"}]}`)
	})
	t.Run("quota", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(l *config.Listener) { l.RLS.Quota = true })
		for q, want := range map[string]pb.RateLimitResponse_Code{"zero=a": pb.RateLimitResponse_OVER_LIMIT, "zero=a other=a": pb.RateLimitResponse_OK} {
			if r, err := b.ShouldRateLimit(t.Context(), request(strings.Fields(q)...)); err != nil || r.GetOverallCode() != want {
				t.Errorf("%s: %v, %v", q, r, err)
			}
		}
	})
	t.Run("headers and metadata", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(l *config.Listener) {
			l.RLS.Headers, l.RLS.Metadata = true, true
			l.RLS.LimitHeader, l.RLS.RemainingHeader, l.RLS.ResetHeader = "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"
		})
		q := request("month=a", "year=a", "zero=a")
		q.HitsAddend, q.Descriptors[0].HitsAddend = 1, wrapperspb.UInt64(2)
		b.want(q, `{"overallCode": "OVER_LIMIT", "statuses": [
			{"code": "OK", "limitRemaining": 7, "currentLimit": {"unit": "MONTH", "requestsPerUnit": 9}, "durationUntilReset": "1592000s"},
			{"code": "OK", "limitRemaining": 8, "currentLimit": {"unit": "YEAR", "requestsPerUnit": 9}, "durationUntilReset": "30536000s"},
			{"code": "OVER_LIMIT", "currentLimit": {"unit": "SECOND"}, "durationUntilReset": "1s"}],
			"responseHeadersToAdd": [{"key": "RateLimit-Limit", "value": "0"}, {"key": "RateLimit-Remaining", "value": "0"}, {"key": "RateLimit-Reset", "value": "1"}],
			"dynamicMetadata": {"domain": "d", "hitsAddend": 1, "metadata": {"a": {"b": 1, "d": 3}, "c": ["x"]}, "descriptors": [
				{"entries": ["month=a"], "hitsAddend": 2}, {"entries": ["year=a"]}, {"entries": ["zero=a"]}]}}`)
		r, err := b.ShouldRateLimit(t.Context(), request("year=b", "hour=a"))
		if err != nil || len(r.GetResponseHeadersToAdd()) != 3 || r.GetResponseHeadersToAdd()[1].GetValue() != "2" {
			t.Errorf("%v, %v", r, err)
		}
	})
}

// TestAdmission: peers that deny lists get no answer.
func TestAdmission(t *testing.T) {
	t.Parallel()
	b := start(t, func(l *config.Listener) { l.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	if _, err := b.ShouldRateLimit(t.Context(), request("hour=a")); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
}

// TestJSON: requests in JSON come over HTTP/1.1 at the same address.
func TestJSON(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	post := func(path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it has been read
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, strings.ReplaceAll(string(text), " ", "")
	}
	one := `{"domain": "d", "descriptors": [{"entries": [{"key": "zero", "value": "a"}]}]}`
	for _, step := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/healthcheck", "", 200, "OK"},
		{"/json", strings.Replace(one, "zero", "other", 1), 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{"/json", one, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"unit":"SECOND"},"durationUntilReset":"1s"}]}`},
		{"/json", `{`, 400, ""},
		{"/json", `{"domain": "d", "unknown": 1}`, 400, ""},
		{"/json", `{"domain": "d"}`, 400, "ratelimitdescriptorlistmustnotbeempty\n"},
		{"/other", "", 404, ""},
	} {
		if status, text := post(step.path, step.body); status != step.status || step.want != "" && text != step.want {
			t.Errorf("%s %s: %d %s", step.path, step.body, status, text)
		}
	}
	failed := errors.New("no store")
	b.store.err.Store(&failed)
	if status, _ := post("/json", one); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
}

// TestServices: the other services of gRPC answer, and health says when the front stops.
func TestServices(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	health := healthpb.NewHealthClient(b.conn)
	for _, service := range []string{"", "ratelimit"} {
		r, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, r, err)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(b.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	r, err := stream.Recv()
	if err != nil || !strings.Contains(r.String(), "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("%v, %v", r, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// TestRecords: each descriptor with a limit is recorded twice.
func TestRecords(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	if _, err := b.ShouldRateLimit(t.Context(), request("zero=a|b", "hour=x", "other=a")); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.records) != 4 {
		t.Fatalf("%d records", len(b.records))
	}
	for i, r := range b.records {
		wantKey, wantVerdict, wantLimit := "d|zero=a%7Cb", evaluate.Denied, "d.zero"
		if i >= 2 {
			wantKey, wantVerdict, wantLimit = "d|hour=x", evaluate.Allowed, "d.hour"
		}
		if r.Event.Charge.Key != wantKey || r.Event.Verdict != wantVerdict || r.Event.Limit.Name != wantLimit || r.Ended != (i%2 == 1) || r.Front != "rls" || r.Host != "d" {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// TestClientLeaves: a request whose client leaves before the store answers is recorded as
// abandoned, one whose store fails as failed.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	failed := errors.New("no store")
	b.store.err.Store(&failed)
	if _, err := b.ShouldRateLimit(t.Context(), request("hour=a")); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	b.store.asked = make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-b.store.asked
		leave()
	}()
	if _, err := b.ShouldRateLimit(ctx, request("hour=a")); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	recorded := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.records)
	}
	testkit.Until(t, "both requests to be recorded", func() bool { return recorded() == 4 })
	for i, want := range []evaluate.VerdictKind{evaluate.FailedClosed, evaluate.FailedClosed, evaluate.Abandoned, evaluate.Abandoned} {
		if r := b.records[i]; r.Event.Verdict != want || r.Status != http.StatusServiceUnavailable {
			t.Errorf("record %d: %v, status %d", i, r.Event.Verdict, r.Status)
		}
	}
}
