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

	"github.com/sluicegate/sluice/server/internal/page"
	"github.com/sluicegate/sluice/server/internal/workbench/replay"
)

//go:embed static/chart.js
var chart []byte

var numeric = regexp.MustCompile(`^[<>]?[-\d.,]+( %| kB)?$`)

// Page returns a report as a page: one file, which asks for nothing. With a result it has a
// chart.
func Page(all []Section, r *replay.Result) ([]byte, error) {
	var files [3][]byte
	for i, name := range []string{"page.css", "uplot.css", "uplot.js"} {
		var err error
		if files[i], err = page.Asset(name); err != nil {
			return nil, err
		}
	}
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src"
	for _, script := range [][]byte{files[2], chart} {
		sum := sha256.Sum256(script)
		policy += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
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
			for n, row := range s.Rows {
				writeRow(&b, row, n == 0, len(s.Rows[0]))
			}
			b.WriteString("</tbody></table></div>\n")
		}
		b.WriteString("</section>\n")
		if i == 1 && r != nil {
			series, err := json.Marshal(r.Series) // in which < is escaped
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "<section><h2>Requests in each %d s</h2><div id=\"chart\" class=\"chart\" role=\"img\" aria-label=\"Allowed and denied requests over time; the tables have the numbers\"></div><p id=\"at\" class=\"at muted\"></p></section>\n"+
				"<script type=\"application/json\" id=\"series\">%s</script>\n<script>%s</script>\n<script>%s</script>\n", r.Series.Seconds, series, files[2], chart)
		}
	}
	b.WriteString("</main></body></html>\n")
	return b.Bytes(), nil
}

// writeRow writes a row of a table. The first of a row is its head.
func writeRow(b *bytes.Buffer, row []string, head bool, cells int) {
	open, end := "<tr>", "</tr>\n"
	if head {
		open, end = "<thead><tr>", "</tr></thead><tbody>\n"
	}
	b.WriteString(open)
	for i := range cells {
		cell, tag, class := "", "td", ""
		if i < len(row) {
			cell = printable(row[i])
		}
		if numeric.MatchString(cell) {
			class = ` class="n"`
		}
		switch {
		case head:
			tag = "th scope=\"col\""
		case i == 0:
			tag = "th scope=\"row\""
		}
		fmt.Fprintf(b, "<%s%s>%s</%s>", tag, class, html.EscapeString(cell), tag[:2])
	}
	b.WriteString(end)
}
