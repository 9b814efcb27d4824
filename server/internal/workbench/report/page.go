// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"

	"github.com/sluicegate/sluice/server/internal/page"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
)

//go:embed static/chart.js
var chart []byte

var numeric = regexp.MustCompile(`^([<>]?[\d,]+(\.\d+)?( %)?|)$`)

// Page returns a report as an HTML page that loads nothing else. With a result it has a chart.
func Page(all []Section, r *replay.Result) ([]byte, error) {
	var files [3][]byte
	for i, name := range []string{"page.css", "uplot.css", "uplot.js"} {
		var err error
		if files[i], err = page.Asset(name); err != nil {
			return nil, err
		}
	}
	hash := func(script []byte) string {
		sum := sha256.Sum256(script)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src " + hash(files[2]) + " " + hash(chart)
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>sluice replay</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n<style>%s%s</style></head>\n<body><header><h1>sluice replay</h1></header><main>\n", policy, files[0], files[1])
	for i, s := range all {
		fmt.Fprintf(&b, "<section><h2>%s</h2>\n", html.EscapeString(s.Title))
		for _, line := range s.Lines {
			fmt.Fprintf(&b, "<p class=\"mono\">%s</p>\n", html.EscapeString(printable(line)))
		}
		if len(s.Rows) > 0 {
			fmt.Fprintf(&b, "<div class=\"scroll\" role=\"group\" aria-label=\"%s\" tabindex=\"0\"><table>\n", html.EscapeString(s.Title))
			numbers := make([]bool, len(s.Rows[0])) // columns of numbers alone
			for i := 1; i < len(numbers); i++ {
				numbers[i] = !slices.ContainsFunc(s.Rows[1:], func(row []string) bool { return i < len(row) && !numeric.MatchString(row[i]) })
			}
			for n, row := range s.Rows {
				writeRow(&b, row, n == 0, numbers)
			}
			b.WriteString("</tbody></table></div>\n")
		}
		b.WriteString("</section>\n")
		if i == 1 && r != nil {
			series, err := json.Marshal(r.Series) // Marshal escapes <
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "<section><h2>Requests in each %d s</h2><div id=\"chart\" class=\"chart\" role=\"img\" aria-label=\"Allowed and denied requests over time; the tables have the numbers\"></div>"+
				"<p class=\"muted\"><span style=\"color:var(--allowed)\">—— allowed</span> <span style=\"color:var(--denied)\">- - - denied</span></p><p id=\"at\" class=\"at muted\"></p></section>\n"+
				"<script type=\"application/json\" id=\"series\">%s</script>\n<script>%s</script>\n<script>%s</script>\n", r.Series.Seconds, series, files[2], chart)
		}
	}
	b.WriteString("</main></body></html>\n")
	return b.Bytes(), nil
}

// writeRow writes a row of a table. The first cell of a row is its head.
func writeRow(b *bytes.Buffer, row []string, head bool, numbers []bool) {
	open, end := "<tr>", "</tr>\n"
	if head {
		open, end = "<thead><tr>", "</tr></thead><tbody>\n"
	}
	b.WriteString(open)
	for i, number := range numbers {
		cell, tag := "", "<td%s>%s</td>"
		switch {
		case head:
			tag = "<th scope=\"col\"%s>%s</th>"
		case i == 0:
			tag = "<th scope=\"row\"%s>%s</th>"
		}
		if i < len(row) {
			cell = html.EscapeString(printable(row[i]))
		}
		fmt.Fprintf(b, tag, map[bool]string{true: ` class="n"`}[number], cell)
	}
	b.WriteString(end)
}
