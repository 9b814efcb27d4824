// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
)

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("sluice.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/every-key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := parse(t, string(data))
	up := c.Upstreams[0]
	got := fmt.Sprintf("%+v\n%v %+v %v %v %v\n%v\n%+v\n%+v\n%+v\n%+v\n%v %v %v %v %v %v\n%+v %+v\n", c.Listen, up.Host, up.Path, up.LongestRequest, up.MaxBody, up.UpstreamHost, c.Upstreams[1].URL, c.Admin, c.Store, c.ClientIP, *c.Tokens, c.Allow, c.Deny, c.Exempt, fmt.Sprint(c.MaxHeld, c.MaxHeldPerKey, c.MaxReadAhead, c.MaxConnections, c.LeastBodyRate, c.Nodes), c.Abandoned, c.Fields, c.DecisionLog, c.AccessLog)
	want := `[{Address:127.0.0.1:8080 Serve: Upstream: CertFile: KeyFile: ClientCAFile: ClientOptional:false ProxyProtocol:[] Name: Limits:{By: Connections:[] Open:{Name: Cap:0 TTL:0s} Bytes:[] Failure:open} Allow:[10.0.0.0/8] Deny:[10.6.6.6/32] MaxConnections:0 LeastBodyRate:0 Original: DeniedStatus:0 RLS:{Files:[] Merge:false Shadow:false Quota:false Together:false Headers:false LimitHeader: RemainingHeader: ResetHeader: Metadata:false EnvoyNames:false} Rules:[] TokensFile: Line:3} {Address:127.0.0.1:8443 Serve: Upstream: CertFile:cert.pem KeyFile:key.pem ClientCAFile:clients.pem ClientOptional:true ProxyProtocol:[10.0.0.0/8] Name: Limits:{By: Connections:[] Open:{Name: Cap:0 TTL:0s} Bytes:[] Failure:open} Allow:[10.1.0.0/16] Deny:[10.1.1.0/24] MaxConnections:1000 LeastBodyRate:-1 Original: DeniedStatus:0 RLS:{Files:[] Merge:false Shadow:false Quota:false Together:false Headers:false LimitHeader: RemainingHeader: ResetHeader: Metadata:false EnvoyNames:false} Rules:[login] TokensFile: Line:4} {Address:127.0.0.1:5433 Serve:tcp Upstream:127.0.0.1:5432 CertFile: KeyFile: ClientCAFile: ClientOptional:false ProxyProtocol:[] Name:db Limits:{By:ip/24/48 Connections:[10/s burst 20 1000/hour] Open:{Name: Cap:100 TTL:30s} Bytes:[100MB/min burst 1MB] Failure:closed} Allow:[10.0.0.0/8] Deny:[10.6.6.6/32] MaxConnections:0 LeastBodyRate:0 Original: DeniedStatus:0 RLS:{Files:[] Merge:false Shadow:false Quota:false Together:false Headers:false LimitHeader: RemainingHeader: ResetHeader: Metadata:false EnvoyNames:false} Rules:[] TokensFile: Line:12} {Address:127.0.0.1:9001 Serve:check Upstream: CertFile: KeyFile: ClientCAFile: ClientOptional:false ProxyProtocol:[] Name: Limits:{By: Connections:[] Open:{Name: Cap:0 TTL:0s} Bytes:[] Failure:open} Allow:[10.0.0.0/8] Deny:[10.6.6.6/32] MaxConnections:0 LeastBodyRate:0 Original:x-original DeniedStatus:403 RLS:{Files:[] Merge:false Shadow:false Quota:false Together:false Headers:false LimitHeader: RemainingHeader: ResetHeader: Metadata:false EnvoyNames:false} Rules:[hot] TokensFile: Line:21} {Address:127.0.0.1:8081 Serve:rls Upstream: CertFile: KeyFile: ClientCAFile: ClientOptional:false ProxyProtocol:[] Name: Limits:{By: Connections:[] Open:{Name: Cap:0 TTL:0s} Bytes:[] Failure:open} Allow:[10.0.0.0/8] Deny:[10.6.6.6/32] MaxConnections:0 LeastBodyRate:0 Original: DeniedStatus:0 RLS:{Files:[limits.yaml] Merge:true Shadow:true Quota:true Together:false Headers:true LimitHeader:X-Limit RemainingHeader:X-Remaining ResetHeader:X-Reset Metadata:true EnvoyNames:true} Rules:[] TokensFile: Line:27} {Address:127.0.0.1:8082 Serve:rls Upstream: CertFile: KeyFile: ClientCAFile: ClientOptional:false ProxyProtocol:[] Name: Limits:{By: Connections:[] Open:{Name: Cap:0 TTL:0s} Bytes:[] Failure:open} Allow:[10.0.0.0/8] Deny:[10.6.6.6/32] MaxConnections:0 LeastBodyRate:0 Original: DeniedStatus:0 RLS:{Files:[limits.yaml] Merge:false Shadow:false Quota:false Together:true Headers:false LimitHeader: RemainingHeader: ResetHeader: Metadata:false EnvoyNames:false} Rules:[] TokensFile: Line:30}]
api.example.com /v1 5m0s 1000000 true
http://127.0.0.1:3001
{Address:127.0.0.1:9090 TokenFile:admin.token Public:true OverridesFile:overrides.json AuditFile:audit.jsonl Hosts:[sluice.internal sluice]}
{Redis:rediss-sentinel://10.0.0.1,10.0.0.2:26380/limits?ca_file=ca.pem Prefix:sluice MaxKeys:0 State:}
{Trusted:[10.0.0.0/8 ::1/128] Header:X-Forwarded-For Hops:0 None:false Line:46}
{Header:X-Token Cookie: JWKS: HMAC:secret Key: Issuer:https://login.example.com Audience:api Required:true}
[10.0.0.0/8] [10.6.6.6/32] [10.9.0.0/16] 500 50 1000000 5000 -1 3 50 [draft-11 x-ratelimit-epoch]
{File:decisions.jsonl Requests:sample Every:1000 By:api Plain:false SecretFile:log.secret} {File:access.log}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := len(c.Policy.Rules()); n != 8 {
		t.Fatalf("%d rules, want 8", n)
	}
	r := &c.Policy.Rules()[0]
	if got, want := fmt.Sprintf("%+v", r.Match), "{Methods:[GET POST] Hosts:[api.example.com *.example.org] Paths:[/v1/{org}/ /v2/{org}/{rest...}] Except:[/v1/{org}/health] "+
		"Headers:[{Name:X-Plan Values:[free trial] Absent:false} {Name:X-Debug Values:[] Absent:false} {Name:Authorization Values:[] Absent:true}] "+
		"Queries:[{Name:format Values:[csv] Absent:false} {Name:dry Values:[] Absent:true}] Descriptor:[] ExceptDescriptor:[] Networks:[192.0.2.0/24 2001:db8::/32]}"; got != want {
		t.Errorf("match\n%s, want\n%s", got, want)
	}
	l := r.Levels[0]
	if got, want := fmt.Sprint(l.By, l.Missing, l.Limits, l.Tiers.By, l.Tiers.Limits, l.Tiers.Unlimited, l.ExemptKeys, r.ExemptNetworks, l.Candidates),
		"[header.X-User ip/24/48] share [100/min soft 1000/hour grace 5000/day] claim.plan map[pro:[1000/min 20/s]] [vip] [[probe 192.0.2.0/24]] [192.0.2.9/32 10.9.0.0/16] [{tight [50/min] map[]} {loose [200/min 1000/hour] map[]} {plans [] map[pro:[900/min]]}]"; got != want {
		t.Errorf("level\n%s, want\n%s", got, want)
	}
	o := l.Overrides[0]
	if got, want := fmt.Sprintf("%v %v %v %v %v", o.Key, o.Limits, o.Expires.Format(time.RFC3339), o.Reason, o.Author), "[ada 192.0.2.0/24] [500/min] 2026-12-31T00:00:00Z launch week ops"; got != want {
		t.Errorf("override %s, want %s", got, want)
	}
	if r.MaxWait != 2*time.Second || r.Failure != sluice.FailClosed || r.Status != 503 || r.RetryJitter.Most != 30*time.Second || r.Cost != (policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 100, Units: 2}) {
		t.Errorf("max wait %v, failure %v, cost %+v", r.MaxWait, r.Failure, r.Cost)
	}
	if a := c.Policy.Rules()[1].Answer; a.Status != 503 || a.ContentType != "application/json" || a.Body != `{"left": {remaining}}` ||
		fmt.Sprint(a.Fields, a.Denied) != "[{X-Left {remaining}}] [{X-Retry {retry_after_ms}}]" || a.Limits["sliding-log.15min"].Status != 429 || a.Limits["sliding-log.15min"].Body != "later" {
		t.Errorf("answer %+v", a)
	}
	for i, want := range []*sluice.LeaseTerms{nil, nil, nil, nil, {TTL: 20 * time.Millisecond, Units: 100, Nodes: 8}, nil, {Nodes: 3}} { // the file has 3
		if got := c.Policy.Rules()[i].Lease; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("rule %d: lease %+v, want %+v", i+1, got, want)
		}
	}
	if w := c.Policy.Rules()[1].When; w == nil || fmt.Sprint(w.Status, w.ChargeFirst) != "[401 4xx 500-503] true" {
		t.Errorf("when %+v", w)
	}
	if c.Policy.Rules()[0].Shape || !c.Policy.Rules()[3].Shape {
		t.Error("the last rule, and not the first, shapes")
	}
	if got, want := fmt.Sprint(c.Line(0), c.Line(1), c.Policy.Rules()[2].Shadow, len(c.Policy.Rules()[2].Levels),
		c.Policy.Rules()[1].Levels[0].InFlight.Cap, c.Policy.Rules()[1].Levels[0].InFlight.TTL, c.Policy.Rules()[2].Levels[1].InFlight.Cap, c.Policy.Rules()[2].Levels[1].InFlight.TTL), "68 107 true 2 10 0s 5 1m0s"; got != want {
		t.Errorf("lines, shadow and levels %s, want %s", got, want)
	}
}

// TestFaults: the files of testdata/faults end with their expected faults.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, want, ok := strings.Cut(string(data), "\n# faults:\n")
			if !ok {
				t.Fatal("no line “# faults:”")
			}
			_, err = config.Parse("f", []byte(text+"\n"))
			var got strings.Builder
			if faults, ok := errors.AsType[config.Faults](err); ok {
				for _, f := range faults {
					got.WriteString("# " + f.Error() + "\n")
				}
			}
			if got.String() == want {
				return
			}
			if *update {
				if err := os.WriteFile(file, []byte(text+"\n# faults:\n"+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("got\n%swant\n%s", got.String(), want)
		})
	}
}

// TestAliases: a file costs no more than its size allows, whatever its aliases.
func TestAliases(t *testing.T) {
	keys := "[" + strings.Repeat("x, ", 2000) + "x]"
	tests := map[string]struct{ text, want string }{
		"many times": {
			"rules:\n  - &r {name: a, by: ip, limits: 1/s, exempt: {keys: " + keys + "}}\n" + strings.Repeat("  - *r\n", 3000),
			"aliases make the file more than",
		},
		"bomb": {
			"rules: [{name: &a [x, x], limits: &b [*a, *a, *a, *a], by: &c [*b, *b, *b, *b]}]\nallow: *c\n",
			"a network is a list",
		},
		"itself":    {"rules: &r\n  - name: a\n    limits: *r\n", "sluice.yaml:"},
		"very deep": {"allow: " + strings.Repeat("[", 20000), "is not YAML"},
		"anchors that are fine": {
			"rules:\n  - {name: a, by: &b ip, limits: &l [1/s, 5/min]}\n  - {name: b, by: *b, limits: *l}\n", "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("sluice.yaml", []byte(test.text))
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestOddFiles: a file that is not plain YAML text is refused, with its place if the YAML
// reader gives one, or is harmless.
func TestOddFiles(t *testing.T) {
	const (
		rules    = "rules: [{name: all, by: ip, limits: 1/h}]\n"
		harmless = `^$`
		refused  = `^f:\d+:\d+: `
		unread   = `^f:`
	)
	for _, c := range []struct{ name, text, want string }{
		{"an alias of nothing", "rules: *nothing\n", unread},
		{"a key twice", rules + rules, refused},
		{"a key twice in a rule", "rules: [{name: all, by: ip, by: host, limits: 1/h}]\n", refused},
		{"a window beyond int64", "rules: [{name: all, by: ip, limits: 1/99999999999999999999s}]\n", refused},
		{"a quota beyond int64", "rules: [{name: all, by: ip, limits: 9223372036854775808/h}]\n", refused},
		{"a size in base 16", "max_delayed: 0x7fffffffffffffff\n" + rules, refused},
		{"a size in base 60", "max_delayed: 190:20:30\n" + rules, refused},
		{"infinity", "max_delayed: .inf\n" + rules, refused},
		{"no number", "max_delayed: .nan\n" + rules, refused},
		{"a tag: binary", "rules: [{name: !!binary YWxs, by: ip, limits: 1/h}]\n", refused},
		{"a tag of a language", "rules: !!python/object/apply:os.system [id]\n", refused},
		{"a tag: set", "rules: !!set {a, b}\n", refused},
		{"a tag of its own", "rules: !x [{name: all, by: ip, limits: 1/h}]\n", harmless},
		{"two documents", rules + "---\n" + rules, refused},
		{"a byte order mark", "\ufeff" + rules, harmless},
		{"UTF-16", "\xff\xfer\x00u\x00l\x00e\x00s\x00:\x00", refused},
		{"NUL", "rules: [{name: \"a\x00b\", by: ip, limits: 1/h}]\n", unread},
		{"NUL behind", rules + "\x00", unread},
		{"bytes that are no UTF-8", "rules: [{name: \xff\xfe, by: ip, limits: 1/h}]\n", unread},
		{"a directive", "%YAML 9.9\n---\n" + rules, unread},
		{"a tab for blanks", "rules:\n\t- {name: all, by: ip, limits: 1/h}\n", refused},
		{"a list for a key", "? [rules]\n: 1\n", refused},
		{"nothing", "", unread},
		{"a file of another kind", "\x7fELF\x02\x01\x01\x00", unread},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if _, err := config.Parse("f", []byte(c.text)); err != nil {
				got = err.Error()
			}
			if !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("got %q, want %s", got, c.want)
			}
		})
	}
}

// TestManyFaults: faults are listed up to a bound, without those that follow from others.
func TestManyFaults(t *testing.T) {
	values := "[" + strings.Repeat("192.0.2.1, ", 2000) + "192.0.2.1]"
	var rules strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&rules, "  - {name: r%d, match: {network: *a}, by: ip, limits: 1/s}\n", i)
	}
	tests := []struct {
		name, text string
		lines      int
		last       string
	}{
		{"more than are kept", "rules:\n" + strings.Repeat("  - {nmae: a}\n", 1100), 1001, "sluice.yaml: has more faults; these are the first 1000 that were found"},
		{
			"what is not read", "allow: &a " + values + "\nrules:\n" + rules.String(), 1,
			"aliases make the file more than",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Parse("sluice.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if got, want := len(lines), test.lines; got != want {
				t.Errorf("%d faults, want %d", got, want)
			}
			if got, want := lines[len(lines)-1], test.last; !strings.Contains(got, want) {
				t.Errorf("last fault %q, want %q", got, want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that the file does not exist", err)
	}
	c, err := config.Load("testdata/every-key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Version) != 12 {
		t.Errorf("version %q", c.Version)
	}
	if other := parse(t, "rules: [{name: a, limits: 1/s}]"); other.Version == c.Version {
		t.Error("two files have one version")
	}
}

func FuzzParse(f *testing.F) {
	for _, glob := range []string{"testdata/*.yaml", "testdata/faults/*.yaml", "../examples/configs/*.yaml"} {
		files, err := filepath.Glob(glob)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Add("rules: &r [*r]")
	f.Add("rules:\n- name: \"a\\n\"\n  limits: |\n    1/s\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f", []byte(text))
		var faults config.Faults
		switch {
		case err == nil && len(c.Policy.Rules()) > 0:
		case !errors.As(err, &faults) || len(faults) == 0:
			t.Errorf("error %v is not a list of faults", err)
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		for _, fault := range faults {
			if fault.Line > 0 && fault.Column < 1 || fault.Line > lines+1 && fault.Line != 1<<30 || fault.Problem == "" {
				t.Errorf("fault at %d:%d of %d lines: %s", fault.Line, fault.Column, lines, fault.Problem)
			}
		}
	})
}

// TestRulesShareNothing: one reader reads all rules, and no rule keeps parts of the previous
// one.
func TestRulesShareNothing(t *testing.T) {
	const text = `
rules:
  - name: first
    match: {method: POST, host: a.example.com, path: /a, except_path: /a/b, header: {X-A: "1"}, query: {q: "1"}, network: 10.0.0.0/8}
    by: header.X-User
    missing: skip
    cost: 3
    mode: shadow
    when: {response: 401}
    failure: closed
    status: 503
    exempt: {networks: 192.0.2.0/24, keys: [vip]}
    limits: 100/min
    candidates: {tight: 10/min}
  - name: second
    limits: 100/min
`
	c, err := config.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := config.Parse("f", []byte("rules:\n  - name: second\n    limits: 100/min\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Policy.Rules()[1], alone.Policy.Rules()[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("behind another a rule is read as\n%+v, alone as\n%+v", got, want)
	}
}
