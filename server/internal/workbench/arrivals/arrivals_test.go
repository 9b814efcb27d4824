// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// read returns all arrivals of files.
func read(t testing.TB, o arrivals.Options, names ...string) ([]arrivals.Arrival, arrivals.Report, error) {
	t.Helper()
	log, err := arrivals.Open(names, strings.NewReader(""), o)
	if err != nil {
		return nil, arrivals.Report{}, err
	}
	var all []arrivals.Arrival
	err = log.All(t.Context(), func(a *arrivals.Arrival) error {
		all = append(all, *a)
		return nil
	})
	return all, log.Report, err
}

// text returns all arrivals of a file with that content.
func text(t testing.TB, o arrivals.Options, content string) ([]arrivals.Arrival, arrivals.Report, error) {
	t.Helper()
	return read(t, o, testkit.TempFile(t, "log", content))
}

const (
	combined  = `192.0.2.7 - ada [29/Feb/2024:23:59:58 -0130] "GET /a?q=\"1\" HTTP/1.1" 200 512 "https://example.com/" "curl \"8\""`
	common    = `2001:db8::1 - - [01/Mar/2024:01:29:59 +0000] "POST /b HTTP/2.0" 429 -`
	caddy     = `{"level":"info","ts":1709256600.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","proto":"HTTP/2.0","method":"GET","host":"a.example:443","uri":"/c?x=1","headers":{"x-user":["ada"],"User-Agent":["curl"]}},"bytes_read":5,"duration":0.5,"size":10900,"status":200}`
	envoy     = `[2024-03-01T01:30:00.123Z] "GET /d HTTP/1.1" 200 - 0 1024 7 5 "203.0.113.9, 192.0.2.7" "curl" "id" "a.example" "10.0.0.1:80"`
	alb       = `https 2024-03-01T01:30:01.000000Z app/lb/1 192.0.2.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 10 57 "GET https://a.example:443/e?f=1 HTTP/1.1" "curl/7.46.0" ECDHE TLSv1.2 arn "Root=1" "a.example" "arn" 1 2024-03-01T01:30:00.500000Z "authenticate" "-" "-"`
	decisions = `{"v":1,"node":"n","config":"c","time":"2024-03-01T01:30:00.000001Z","method":"GET","host":"a.example","path":"/f","client":"192.0.2.7","verdict":"allowed","status":200,"bytes":3,"request_bytes":4,"duration_us":1500,"rules":[{"rule":"api","limit":"100/min","mode":"enforced","key_hash":"ab","cost":1,"verdict":"allowed"}]}`
	jsonLine  = `{"@timestamp":"2024-03-01T02:30:00.25+01:00","remote_addr":"192.0.2.7","request":"GET /g?h=1 HTTP/1.1","status":"200","body_bytes_sent":12,"request_time":"0.25","user":{"id":"ada"},"n":3}`
	zeek      = "#separator \\x09\n#fields\tts\tuid\tid.orig_h\tmethod\thost\turi\n#types\ttime\tstring\taddr\tstring\tstring\tstring\n1709256600.000001\tC1\t192.0.2.7\tGET\ta.example\t/h\n#close\t2024\n"
	tsv       = "host\ttime\tbytes\nada\t1709256600\t9\n"
	csv       = "when;who;units\n2024-03-01 01:30:00.5;\"ada; \"\"x\"\"\";7\n"
	bare      = "17 4 1709256600 RT\n17 5 1709256601 RT\n"
)

var client = netip.MustParseAddr("192.0.2.7")

// at is 2024-03-01T01:30:00Z.
const at = 1709256600_000000

func TestFormats(t *testing.T) {
	t.Parallel()
	all := arrivals.Method | arrivals.Path | arrivals.Query | arrivals.Client | arrivals.Status
	for _, c := range []struct {
		format, content string
		options         arrivals.Options
		want            arrivals.Arrival
	}{
		{"combined", combined, arrivals.Options{}, arrivals.Arrival{
			At: at - 2e6, Has: all | arrivals.Written | arrivals.Agent | arrivals.Referer, Method: "GET", Target: `/a?q=\"1\"`, Client: client,
			Agent: `curl \"8\"`, Referer: "https://example.com/", Status: 200, Read: -1, Written: 512,
		}},
		{"common", common, arrivals.Options{Key: "client"}, arrivals.Arrival{
			At: at - 1e6, Has: all, Method: "POST", Target: "/b", Client: netip.MustParseAddr("2001:db8::1"), Status: 429, Read: -1, Key: "2001:db8::1",
		}},
		{"caddy", caddy, arrivals.Options{Key: "request.headers.x-user", Cost: "size"}, arrivals.Arrival{
			At: at, Has: all | arrivals.Host | arrivals.Headers | arrivals.Written | arrivals.Read | arrivals.Took, Method: "GET", Host: "a.example:443", Target: "/c?x=1", Client: client,
			Headers: map[string][]string{"X-User": {"ada"}, "User-Agent": {"curl"}}, Status: 200, Read: 5, Written: 10900, Took: 500 * time.Millisecond, Key: "ada", Cost: 10900,
		}},
		{"envoy", envoy, arrivals.Options{Key: "host"}, arrivals.Arrival{
			At: at + 123e3, Has: all | arrivals.Host | arrivals.Agent | arrivals.Written | arrivals.Read | arrivals.Took, Method: "GET", Host: "a.example", Target: "/d", Client: client,
			Agent: "curl", Status: 200, Written: 1024, Took: 7 * time.Millisecond, Key: "a.example",
		}},
		{"alb", alb, arrivals.Options{}, arrivals.Arrival{
			At: at + 5e5, Has: all | arrivals.Host | arrivals.Agent | arrivals.Written | arrivals.Read | arrivals.Took, Method: "GET", Host: "a.example:443", Target: "/e?f=1", Client: client,
			Agent: "curl/7.46.0", Status: 200, Read: 10, Written: 57, Took: 48 * time.Millisecond,
		}},
		{"decisions", decisions, arrivals.Options{}, arrivals.Arrival{
			At: at + 1, Has: all&^arrivals.Query | arrivals.Host | arrivals.Written | arrivals.Read | arrivals.Took, Method: "GET", Host: "a.example", Target: "/f", Client: client,
			Status: 200, Read: 4, Written: 3, Took: 1500 * time.Microsecond,
		}},
		{"json, time in @timestamp", jsonLine, arrivals.Options{Key: "user.id", Cost: "n"}, arrivals.Arrival{
			At: at + 25e4, Has: all | arrivals.Written | arrivals.Took, Method: "GET", Target: "/g?h=1", Client: client, Status: 200, Read: -1, Written: 12,
			Took: 250 * time.Millisecond, Key: "ada", Cost: 3,
		}},
		{"zeek", zeek, arrivals.Options{Key: "uid"}, arrivals.Arrival{
			At: at + 1, Has: arrivals.Method | arrivals.Host | arrivals.Path | arrivals.Query | arrivals.Client, Method: "GET", Host: "a.example", Target: "/h", Client: client, Read: -1, Key: "C1",
		}},
		{"tsv, time in column 2", tsv, arrivals.Options{Key: "host", Cost: "bytes"}, arrivals.Arrival{At: at, Has: arrivals.Host | arrivals.Written, Host: "ada", Read: -1, Written: 9, Key: "ada", Cost: 9}},
		{"csv, time in column 1", csv, arrivals.Options{Time: "when", Key: "2", Cost: "units"}, arrivals.Arrival{At: at + 5e5, Read: -1, Key: `ada; "x"`, Cost: 7}},
		{"csv, time in column 2", "# made by a script; on, a, day\n#\nwho,time\nada,1709256600\n# end\n", arrivals.Options{Key: "who"}, arrivals.Arrival{At: at, Read: -1, Key: "ada"}},
		{"tsv, time in column 2", "#who\ttime\nada\t1709256600\n", arrivals.Options{Key: "#who"}, arrivals.Arrival{At: at, Read: -1, Key: "ada"}},
		{"tsv without a header, time in column 1", "5\tx\n", arrivals.Options{Time: "1", Key: "2"}, arrivals.Arrival{At: 5e6, Read: -1, Key: "x"}},
		{"blanks without a header, time in column 3", bare, arrivals.Options{Key: "1"}, arrivals.Arrival{At: at, Read: -1, Key: "17"}},
	} {
		t.Run(c.format, func(t *testing.T) {
			t.Parallel()
			for _, content := range []string{c.content, "\xef\xbb\xbf" + strings.ReplaceAll(c.content, "\n", "\r\n") + "\r\n"} {
				got, report, err := text(t, c.options, content)
				if err != nil || len(got) == 0 || report.Broken != 0 || report.Files[0].Format != c.format {
					t.Fatalf("%d arrivals, %+v, %v", len(got), report, err)
				}
				a := got[0]
				if c.format == "decisions" && (a.Record == nil || a.Record.Verdict != "allowed" || a.Record.Rules[0].Hash != "ab") {
					t.Errorf("record %+v", a.Record)
				}
				if a.Client.Is4() && a.Name != a.Client.String() {
					t.Errorf("the client is logged as %q", a.Name)
				}
				a.Line, a.File, a.Record, a.Name = 0, 0, nil, ""
				if fmt.Sprint(a) != fmt.Sprint(c.want) {
					t.Errorf("got\n%+v, want\n%+v", a, c.want)
				}
			}
		})
	}
}

// TestUserNames: the name of a user has blanks and brackets in the common log format. A line
// that begins with more than a client is of another format.
func TestUserNames(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"bob smith", "bob [x] smith", "a b c", "-", "O'Neil [", ""} {
		for _, line := range []string{combined, common} {
			for _, old := range []string{" ada [", " - ["} {
				line = strings.Replace(line, old, " "+user+" [", 1)
			}
			got, report, err := text(t, arrivals.Options{Key: "client"}, line)
			if err != nil || len(got) != 1 || report.Broken != 0 || got[0].Method == "" || got[0].Status == 0 || !got[0].Client.IsValid() {
				t.Errorf("%s: %+v, %+v, %v", line, got, report, err)
			}
			if got, _, err = text(t, arrivals.Options{Key: "user"}, line); user != "" && (err != nil || got[0].Key != user) {
				t.Errorf("%s: %+v, %v", line, got, err)
			}
		}
	}
	for _, before := range []string{"a.example:443 ", "10.0.0.1, "} {
		if got, _, err := text(t, arrivals.Options{}, before+combined); err == nil {
			t.Errorf("%s: %+v", before, got)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{
		"1709256600": at, "1709256600.5": at + 5e5, "1709256600.1234567": at + 123456, "1709256600123": at + 123e3, "1709256600123456": at + 123456,
		"1709256600123.5": at + 123500, "1709256600123456.5": at + 123456, "1.7092566001235e9": at + 123500, "1.7092566001235E+12": at + 123500, "1709256600.": at,
		"1709256600123456789": at + 123456, "804571201": 804571201e6, "2024-03-01T01:30:00Z": at, "2024-03-01 01:30:00": at, "2024-03-01T01:30:00,5": at + 5e5,
		"2024-03-01T03:30:00.000001+02:00": at + 1, "2024-03-01 01:30:00 UTC": at, "01/Mar/2024:01:30:00 +0000": at,
		"29/Feb/2024:00:00:00 +0000": 1709164800e6, "2016-12-31T23:59:60Z": 1483228800e6, "0": 0, "31/Dec/1969:23:00:00 -0200": 3600e6,
	} {
		if got, err := arrivals.ParseTime(s); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "-", "now", "1.2.3", "-5", "1e9", "1.5e300", "0x1.8p3", "1.e", "1.5e", "1709256600123.x", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:61:00Z", "2024-01-01T00:00:00+25:00",
		"2024-01-01", "2024-01-01T00:00:00Zjunk", "29/Feb/2023:00:00:00 +0000", "31/Apr/2024:00:00:00 +0000", "01/Foo/2024:00:00:00 +0000", "01/anF/2024:00:00:00 +0000",
		"01/Mar/2024:01:30:00", "01/Mar/2024:01:30:00 0000", "99999999999", "9999-12-31T00:00:00Z", "1969-12-31T23:59:59Z", "12345678901234567890",
	} {
		if got, err := arrivals.ParseTime(s); err == nil {
			t.Errorf("%q: %d, want an error", s, got)
		}
	}
}

// TestClients: whatever is logged for a client, its address is what the gateway would see, and
// that of IPv4 has one name.
func TestClients(t *testing.T) {
	t.Parallel()
	for logged, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7:80": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7", "2001:db8::1%eth0": "2001:db8::1",
		"[2001:db8::1]:443": "2001:db8::1", "10.0.0.1, 192.0.2.7": "192.0.2.7", "host.example": "invalid IP", "192.0.2.007": "invalid IP",
	} {
		got, _, err := text(t, arrivals.Options{}, "time\tip\n1709256600\t"+logged+"\n")
		if err != nil || got[0].Client.String() != want || got[0].Client.Is4() && got[0].Name != want || want == "invalid IP" && got[0].Name != logged {
			t.Errorf("%s: %+v, %v", logged, got, err)
		}
	}
}

// TestOddNumbers: a request whose status or size is no number is one even so.
func TestOddNumbers(t *testing.T) {
	t.Parallel()
	got, report, err := text(t, arrivals.Options{}, "time\tstatus\tbytes\tduration\n1709256600\tOK\t1e3\tlong\n1709256601\t99999999999999999999\t-5\tNaN\n1709256602\t200\t7\t0.5\n")
	if err != nil || len(got) != 3 || report.Broken != 0 || got[0].Has|got[1].Has != 0 || got[2].Status != 200 || got[2].Took != 500*time.Millisecond {
		t.Errorf("got %+v, %+v, %v", got, report, err)
	}
}

// TestOrder: lines that are late are put in order, also over blocks and files; those of one
// instant stay as they are.
func TestOrder(t *testing.T) {
	t.Parallel()
	var first, second strings.Builder
	const n = 20000
	for i := range n {
		at := 1_700_000_000 + int64(i)
		if i%1000 == 7 {
			at -= 900 // which came then
		}
		fmt.Fprintf(&first, "%d\tfirst\t%d\n", at, i)
		fmt.Fprintf(&second, "%d\tsecond\t%d\n", 1_700_000_000+int64(i), i)
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	testkit.WriteFile(t, a, first.String())
	testkit.WriteFile(t, b, second.String())
	got, report, err := read(t, arrivals.Options{Key: "2"}, a, b)
	if err != nil || len(got) != 2*n || report.Late != n/1000 || report.Misplaced != 0 || report.Lines != 2*n {
		t.Fatalf("%d arrivals, %+v, %v", len(got), report, err)
	}
	if !slices.IsSortedFunc(got, func(a, b arrivals.Arrival) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return a.File - b.File
	}) {
		t.Error("not in order")
	}
	if len(report.Examples) != 3 || report.Examples[0].Place != a+":8" {
		t.Errorf("examples %+v", report.Examples)
	}
}

// TestOrderOfFiles: a late line behind the first lines of a file comes before those of another
// file that are after it.
func TestOrderOfFiles(t *testing.T) {
	t.Parallel()
	var first, second strings.Builder
	first.WriteString("key\ttime\n")
	for i := range 150 {
		fmt.Fprintf(&first, "a\t%d\n", 1_700_001_000+i)
	}
	first.WriteString("a\t1700000900\n")
	for i := range 100 {
		fmt.Fprintf(&second, "b\t%d\n", 1_700_000_900+i)
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	testkit.WriteFile(t, a, first.String())
	testkit.WriteFile(t, b, "key\ttime\n"+second.String())
	for _, names := range [][]string{{a, b}, {b, a}, {"-", b}} {
		log, err := arrivals.Open(names, strings.NewReader(first.String()), arrivals.Options{Key: "key"})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		err = log.All(t.Context(), func(*arrivals.Arrival) error { n++; return nil })
		if err != nil || n != 251 || log.Report.Late != 1 || log.Report.Misplaced != 0 || log.Report.Lines != 253 {
			t.Errorf("%q: %d arrivals, %+v, %v", names, n, log.Report, err)
		}
	}
}

// TestTooLate: a line far behind its place takes the time of its neighbour.
func TestTooLate(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "%d\tx\n", 1_700_000_000+i)
	}
	b.WriteString("1700000000\tlate\n")
	got, report, err := text(t, arrivals.Options{Key: "2"}, b.String())
	if err != nil || len(got) != 100_001 || report.Late != 1 || report.Misplaced != 1 {
		t.Fatalf("%d arrivals, %+v, %v", len(got), report, err)
	}
	i := slices.IndexFunc(got, func(a arrivals.Arrival) bool { return a.Key == "late" })
	if got[i].At != got[i-1].At || got[i].Line != 100_001 {
		t.Errorf("the %d-th is %+v", i, got[i])
	}
}

func TestCompressed(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat(combined+"\n", 5000))
	var gz, zs bytes.Buffer
	w := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zs)
	for _, w := range []interface {
		Write(b []byte) (int, error)
		Close() error
	}{w, z} {
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"gzip": gz.Bytes(), "zstd": zs.Bytes()} {
		got, report, err := text(t, arrivals.Options{}, string(b))
		if err != nil || len(got) != 5000 || report.Files[0].Format != "combined, "+name {
			t.Errorf("%s: %d arrivals, %+v, %v", name, len(got), report, err)
		}
	}
	got, report, err := text(t, arrivals.Options{}, string(gz.Bytes()[:gz.Len()-20]))
	if err != nil || len(got) == 0 || report.Broken == 0 || !strings.Contains(report.Examples[len(report.Examples)-1].Problem, "ends early") {
		t.Errorf("cut: %d arrivals, %+v, %v", len(got), report, err)
	}
}

// TestBroken: broken lines are counted and shown, whatever they are.
func TestBroken(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10<<20)
	lines := []string{combined, "", "garbage", combined, "\x00\xff\x1b[31m", long, strings.Replace(combined, "Feb", "Foo", 1), common, combined, jsonLine, strings.TrimSuffix(combined, `"`)}
	got, report, err := text(t, arrivals.Options{}, strings.Join(lines, "\n"))
	if err != nil || len(got) != 5 || report.Broken != 5 || report.Lines != 11 {
		t.Fatalf("%d arrivals, %+v, %v", len(got), report, err)
	}
	if e := report.Examples; len(e) < 3 || !strings.HasSuffix(e[0].Place, "log:3") || e[0].Text != "garbage" || len(e[2].Text) > 200 {
		t.Errorf("%+v", report.Examples)
	}
	if got[3].Line != 11 || got[3].Agent != `curl \"8\"` {
		t.Errorf("the line that is cut: %+v", got[3])
	}
}

// TestLongFirst: lines that are too long are broken and not fatal before others, too.
func TestLongFirst(t *testing.T) {
	t.Parallel()
	for _, good := range []string{combined, jsonLine, tsv + "x\t1709256600\t9"} {
		for _, bad := range []string{strings.Repeat("x", 3<<20), `{"time":1709256600,"x":"` + strings.Repeat("x", 3<<20) + `"}`} {
			content := bad + "\n" + good + "\n"
			got, report, err := text(t, arrivals.Options{}, content)
			if err != nil || len(got) == 0 || report.Broken != 1 || report.Lines != int64(strings.Count(content, "\n")) {
				t.Errorf("%.20q, %.20q: %d arrivals, %+v, %v", bad, good, len(got), report, err)
			}
		}
	}
}

// TestLateFields: objects have fields that no object of the first lines has.
func TestLateFields(t *testing.T) {
	t.Parallel()
	const late = `{"time":1709256600,"when":1709256601,"user":"ada","ip":"192.0.2.7","n":3,"request":{"id":"q"}}` + "\n"
	early := strings.Repeat(`{"time":1709256600,"x":1}`+"\n", 150)
	got, report, err := text(t, arrivals.Options{}, early+late)
	if err != nil || len(got) != 151 || report.Broken != 0 || got[149].Has != 0 || got[150].Client != client {
		t.Errorf("the client: %d arrivals, %+v, %v", len(got), report, err)
	}
	for _, c := range []struct {
		options arrivals.Options
		keyless int64
	}{
		{arrivals.Options{Key: "user"}, 150},
		{arrivals.Options{Key: "request.id"}, 150},
		{arrivals.Options{Key: "ip", Cost: "n"}, 150},
		{arrivals.Options{Cost: "n"}, 0},
		{arrivals.Options{Time: "when"}, 0},
		{arrivals.Options{Format: "json", Time: "when", Key: "user"}, 0},
	} {
		for _, content := range []string{early + late, late + early} {
			got, report, err := text(t, c.options, content)
			if err != nil || len(got) != 1 || report.Broken != 150 || report.Keyless != c.keyless || c.options.Key != "" && got[0].Key == "" || c.options.Cost != "" && got[0].Cost != 3 {
				t.Errorf("%+v: %d arrivals, %+v, %v", c.options, len(got), report, err)
			}
		}
	}
	for _, o := range []arrivals.Options{{Key: "a|b"}, {Cost: " user"}, {Time: "zone"}} {
		if _, _, err := text(t, o, early+late); err == nil || !strings.Contains(err.Error(), "there is no such column; there are 2: time, x") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestNothingUsable: a file without a request is an error that says what was tried.
func TestNothingUsable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, want string }{
		{"", "has no lines"},
		{"\n\n\n", "has no lines"},
		{"\x7fELF\x02\x01\x01\x00\x00\xff\xfe", "tried decisions, caddy, json"},
		{strings.Repeat("\x00", 3<<20), "of no format that is known"},
		{"hello world\nhow are you\n", "tried decisions"},
		{"a,b\n1,2\n", "the column of the time with --time"},
		{`{"a":1}`, "the column of the time with --time"},
	} {
		if _, _, err := text(t, arrivals.Options{}, c.content); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %q", c.content, err, c.want)
		}
	}
	for _, c := range []struct {
		content string
		options arrivals.Options
		want    string
	}{
		{tsv, arrivals.Options{Key: "user"}, "--key user: there is no such column; there are 3: host, time, bytes"},
		{jsonLine, arrivals.Options{Key: "user.name"}, "--key user.name: there is no such column; there are 9: @timestamp, body_bytes_sent"},
		{zeek, arrivals.Options{Key: "user"}, "--key user: there is no such column; there are 6: ts, uid"},
		{combined, arrivals.Options{Key: "zone"}, "--key zone: there is no such column; there are 9: client|host, ident, user"},
		{bare, arrivals.Options{Key: "5"}, "there is no such column; there are 4"},
		{tsv, arrivals.Options{Time: "when"}, "--time when: there is no such column"},
		{combined, arrivals.Options{Format: "xml"}, `--format "xml": expected one of decisions`},
		{combined, arrivals.Options{Format: "json"}, "no object of JSON"},
		{combined, arrivals.Options{Format: "alb"}, "none of 1 lines can be used as alb"},
	} {
		if _, _, err := text(t, c.options, c.content); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q, %+v: %v, want %q", c.content, c.options, err, c.want)
		}
	}
	if _, _, err := read(t, arrivals.Options{}, filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if _, _, err := read(t, arrivals.Options{}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
}

// FuzzLines: whatever a file is, reading it ends, in order, and every line is counted.
func FuzzLines(f *testing.F) {
	for _, s := range []string{combined, common, caddy, envoy, alb, decisions, jsonLine, zeek, tsv, csv, bare, combined + "\n" + jsonLine, "\xef\xbb\xbf,\"\n\"\"", "[] \"\"", `h2 0 - - - - - - - - - "" "" ""`} {
		for i := -1; i < len(arrivals.Formats); i++ {
			f.Add(s, i)
		}
	}
	f.Fuzz(func(t *testing.T, content string, n int) {
		o := arrivals.Options{}
		if n >= 0 {
			o.Format = arrivals.Formats[n%len(arrivals.Formats)]
		}
		got, report, err := text(t, o, content)
		if err != nil {
			return
		}
		if int64(len(got))+report.Broken > report.Lines || report.Lines != int64(strings.Count(strings.TrimSuffix(content, "\n"), "\n")+1) {
			t.Errorf("%d arrivals of %+v", len(got), report)
		}
		for i := range got {
			if i > 0 && got[i].At < got[i-1].At || got[i].At < 0 || got[i].Took < 0 || got[i].Cost < 0 || got[i].Read < -1 || got[i].Written < 0 {
				t.Errorf("%+v", got[i])
			}
		}
	})
}
