// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestReplay: the page of a replay draws its chart from one file, without a request, and what
// the log's strangers have sent is text.
func TestReplay(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for i := range 600 {
		key := []string{hostile, "ada", "</script><script>document.title='gone'</script>"}[i*i%3]
		fmt.Fprintf(&log, "%d\t%s\n", 1_709_256_600+i, key)
	}
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "log.tsv"), log.String())
	file := filepath.Join(dir, "report.html")
	cmd := exec.CommandContext(t.Context(), program, "replay", "--limit", "10/min sliding-log", "--key", "2", "--html", file, filepath.Join(dir, "log.tsv"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		width  int64
		scheme string
	}{{390, "dark"}, {1440, "light"}} {
		b := open(t, c.width, c.scheme)
		b.do(t, chromedp.Navigate("file://"+file))
		b.until(t, `document.querySelector("#chart canvas")`)
		if got := b.eval(t, `performance.getEntriesByType("resource").length`); got != "0" {
			t.Errorf("it asks for %s files", got)
		}
		if got := b.text(t, "body"); !strings.Contains(got, hostile) || b.eval(t, "document.title") != "sluice replay" {
			t.Errorf("the title is %q, and the page\n%s", b.eval(t, "document.title"), got)
		}
		const drawn = `(() => { const c = document.querySelector("#chart canvas"); return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((n) => n > 0); })()`
		if b.eval(t, drawn) != "true" {
			t.Error("the chart is empty")
		}
		if got := b.eval(t, "document.documentElement.scrollWidth"); got != fmt.Sprint(c.width) {
			t.Errorf("it is %s wide", got)
		}
		b.accessible(t, "a replay")
	}
}
