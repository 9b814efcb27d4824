// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/nginx"
)

var update = flag.Bool("update", false, "rewrite expected results under testdata")

// check parses the result as sluice's file.
func check(yaml []byte) (problems []string) {
	_, err := config.Parse("f", yaml)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			problems = append(problems, f.Problem)
		}
	}
	return problems
}

// convertText converts a file. It drops the notes about upstreams, and about keys that servers
// read differently.
func convertText(name, text string) (yaml []byte, notes []nginx.Note, err error) {
	yaml, notes, err = nginx.Convert([]nginx.File{{Name: name, Text: text}}, check)
	return yaml, slices.DeleteFunc(notes, func(n nginx.Note) bool {
		return strings.Contains(n.Text, "upstream") || strings.Contains(n.Text, " that is sent twice")
	}), err
}

// TestConvert: each configuration of testdata has its conversion beside it: a file without
// faults, and notes.
func TestConvert(t *testing.T) {
	var files []string
	for _, glob := range []string{"testdata/*.conf", "testdata/ingress*.yml"} {
		found, err := filepath.Glob(glob)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s: %v", glob, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			yaml, notes, err := nginx.Convert([]nginx.File{{Name: filepath.Base(file), Text: string(text)}}, check)
			if err != nil {
				t.Fatal(err)
			}
			got := string(yaml) + "# notes:\n"
			for _, n := range notes {
				got += "# " + n.String() + "\n"
			}
			golden := file + ".golden"
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != got {
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				t.Errorf("%s differs (%v); got\n%s", golden, err, got)
			}
			if _, err := config.Parse(golden, yaml); err != nil {
				t.Errorf("what was made is not a file of ours: %v", err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a block that is open":    {"http {\n  server {\n", "f:2: a block is not closed; a } is missing"},
		"a block too many":        {"http {\n}\n}", "f:3: a } closes no block"},
		"no semicolon":            {"http {\n  a b\n}", "f:3: a directive is not ended before the }; a ; is missing"},
		"no end":                  {"user www", "f:1: a directive is not ended; a ; is missing"},
		"a quote that is open":    {"a;\nb 'c", "f:2: a quote is not closed"},
		"a variable that is open": {"a ${b c;", "f:1: a variable's name is not closed; a } is missing"},
		"lua that is open":        {"a_by_lua_block { if {} ", "f:1: a block is not closed; a } is missing"},
		"too deep":                {strings.Repeat("a {", 100), "f:1: blocks within blocks, too deep to be a configuration"},
		"no limits":               {"http { server { listen 80; } }", "nginx: f: no limit that can be converted"},
		"empty":                   {"", "nginx: f: no limit that can be converted"},
		"no objects":              {"kind: Ingress\nmetadata: [", "f:3: is not a list of Kubernetes objects: did not find expected node content"},
		"no text":                 {"kind: Ingress\nmetadata: \x01", "f:2: is not a list of Kubernetes objects: control characters"},
		"another type":            {"kind: Ingress\nspec:\n  rules: 1", "f:3: is not a list of Kubernetes objects: cannot"},
		"too long":                {strings.Repeat(" ", nginx.MaxBytes+1), "f:1: more than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := nginx.Convert([]nginx.File{{Name: "f", Text: test.text}}, check)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// TestRoundedRateIsExplained: a rate that nginx rounds differs from its file, and the
// converted file must say why.
func TestRoundedRateIsExplained(t *testing.T) {
	for _, test := range []struct{ rate, limit, why string }{
		{"100r/m", "833/500s", "   # 100r/m: nginx counts in thousandths of a request a second, rounded down, which makes it 1.666r/s"},
		{"1r/m", "2/125s", "   # 1r/m: nginx counts in thousandths of a request a second, rounded down, which makes it 0.016r/s"},
		{"30r/m", "1/2s", ""},
		{"7r/s", "7/s", ""},
	} {
		text := fmt.Sprintf("http { limit_req_zone $binary_remote_addr zone=z:1m rate=%s; limit_req zone=z burst=5 nodelay; }", test.rate)
		yaml, _, err := nginx.Convert([]nginx.File{{Name: "f", Text: text}}, check)
		if err != nil {
			t.Fatal(err)
		}
		if want := "    limits: " + test.limit + " leaky-bucket burst 6 nodelay" + test.why + "\n"; !strings.Contains(string(yaml), want) {
			t.Errorf("%s: got\n%swant the line\n%s", test.rate, yaml, want)
		}
		c, err := config.Parse("f", yaml)
		if err != nil || len(c.Policy.Rules()) != 1 {
			t.Errorf("%s: what was made is not a file of ours: %v", test.rate, err)
		}
	}
}

// TestEmptyMark: a map's value for "" applies to networks without a mark.
func TestEmptyMark(t *testing.T) {
	const text = `http {
		geo $mark { 10.0.0.0/8 free; }
		map $mark $key { "" $binary_remote_addr; free ""; }
		limit_req_zone $key zone=z:1m rate=1r/s;
		limit_req zone=z;
	}`
	yaml, notes, err := convertText("f", text)
	if err != nil || len(notes) > 0 {
		t.Fatalf("error %v, notes %v", err, notes)
	}
	for _, want := range []string{"by: ip/32/128", "exempt: {networks: \"10.0.0.0/8\"}"} {
		if !strings.Contains(string(yaml), want) {
			t.Errorf("got\n%swant %s", yaml, want)
		}
	}
}

// TestNameWithinAName: a variable is a key part of its own, even if its name begins with
// another's.
func TestNameWithinAName(t *testing.T) {
	const text = `http { limit_req_zone ${arg_k}$arg_key zone=z:1m rate=1r/s; limit_req zone=z; }`
	yaml, notes, err := convertText("f", text)
	if err != nil || !strings.Contains(string(yaml), "by: [query.k, query.key]") {
		t.Fatalf("error %v, got\n%s", err, yaml)
	}
	if len(notes) != 1 || !strings.Contains(notes[0].Text, "here they share a budget") {
		t.Errorf("notes %v, want one about requests without any part of the key", notes)
	}
}

// nginxZone decides by nginx's arithmetic (ngx_http_limit_req_module.c), on a clock of
// milliseconds: excess in thousandths of a request.
type nginxZone struct {
	rate, burst, delay int64
	excess, last       int64
	known              bool
}

func (z *nginxZone) request(ms int64) (allowed bool, delay time.Duration) {
	excess := int64(0)
	if z.known {
		excess = max(0, z.excess-z.rate*(ms-z.last)/1000+1000)
	}
	if excess > z.burst*1000 {
		return false, 0
	}
	z.excess, z.last, z.known = excess, ms, true
	if excess <= z.delay*1000 {
		return true, 0
	}
	return true, time.Duration((excess-z.delay*1000)*1000/z.rate) * time.Millisecond
}

// TestDecidesAsNginx: a converted limit decides as nginx does: exactly for rates without
// rounding, and within a unit of nginx's clock for others.
func TestDecidesAsNginx(t *testing.T) {
	tests := []struct {
		rate, args          string
		milli, burst, delay int64
	}{
		{"10r/s", "burst=5", 10_000, 5, 0},
		{"10r/s", "burst=5 nodelay", 10_000, 5, 5},
		{"10r/s", "burst=12 delay=8", 10_000, 12, 8},
		{"1r/s", "", 1000, 0, 0},
		{"30r/m", "burst=3", 500, 3, 0},
		{"1r/m", "burst=1 nodelay", 16, 1, 1},
		{"100r/s", "burst=20 delay=30", 100_000, 20, 20},
	}
	for _, test := range tests {
		t.Run(test.rate+" "+test.args, func(t *testing.T) {
			text := fmt.Sprintf("http { limit_req_zone $binary_remote_addr zone=z:1m rate=%s; limit_req zone=z %s; }", test.rate, test.args)
			yaml, notes, err := convertText("f", text)
			if err != nil || len(notes) > 0 {
				t.Fatalf("error %v, notes %v", err, notes)
			}
			c, err := config.Parse("f", yaml)
			if err != nil {
				t.Fatal(err)
			}
			limit := c.Policy.Rules()[0].Levels[0].Limits[0].Limit
			now := time.UnixMilli(1_700_000_000_000)
			lim, err := sluice.New(memstore.New(memstore.Options{MaxKeys: 16, Now: func() time.Time { return now }}), "s", limit)
			if err != nil {
				t.Fatal(err)
			}
			z := nginxZone{rate: test.milli, burst: test.burst, delay: test.delay}
			perRequest := 1_000_000 / test.milli // ms
			for i := range int64(3000) {
				// Steps at which a whole number of thousandths drains.
				step := []int64{0, 0, 0, perRequest, 0, 3 * perRequest, 0, perRequest * 20}[i*i%8]
				if test.milli == 16 {
					step *= 2 // 62,500 ms
				}
				now = now.Add(time.Duration(step) * time.Millisecond)
				d, err := lim.Take(t.Context(), "k", 1)
				if err != nil {
					t.Fatal(err)
				}
				allowed, delay := z.request(now.UnixMilli())
				if d.Allowed != allowed || d.Delay.Truncate(time.Millisecond) != delay {
					t.Fatalf("request %d at %d ms: %v allows %v, delay %v; nginx %v, %v", i, now.UnixMilli(), limit, d.Allowed, d.Delay, allowed, delay)
				}
			}
		})
	}
}

func FuzzConvert(f *testing.F) {
	for _, glob := range []string{"testdata/*.conf", "testdata/*.yml"} {
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
	f.Fuzz(func(t *testing.T, text string) {
		yaml, notes, err := nginx.Convert([]nginx.File{{Name: "f", Text: text}}, check)
		lines := strings.Count(text, "\n") + 1
		for _, n := range notes {
			if n.Line < 0 || n.Line > lines || n.Text == "" {
				t.Errorf("note at line %d of %d: %q", n.Line, lines, n.Text)
			}
		}
		var syntax *nginx.SyntaxError
		if err != nil {
			if !errors.As(err, &syntax) && !errors.Is(err, nginx.ErrNoLimits) {
				t.Errorf("error %v", err)
			}
			return
		}
		tooMany := slices.ContainsFunc(notes, func(n nginx.Note) bool { return strings.HasPrefix(n.Text, "the rules together: ") })
		if _, err := config.Parse("f", yaml); (err != nil) != tooMany {
			t.Errorf("what was made is not a file of ours: %v\n%s", err, yaml)
		}
	})
}
