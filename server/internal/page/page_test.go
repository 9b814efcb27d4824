// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

func get(t *testing.T, name string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, name, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

// TestFiles: each file is there by its name, as what it is, and may do nothing but
// what a page of this address may.
func TestFiles(t *testing.T) {
	for _, c := range []struct{ path, kind string }{
		{"/", "text/html; charset=utf-8"},
		{"/page/main.js", "text/javascript; charset=utf-8"},
		{"/page/page.css", "text/css; charset=utf-8"},
		{"/page/icon.svg", "image/svg+xml"},
		{"/page/uplot.LICENSE", "text/plain; charset=utf-8"},
	} {
		w := get(t, c.path)
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.Len() == 0 || h.Get("Content-Type") != c.kind || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", c.path, w.Code, h)
		}
		for _, want := range []string{"default-src 'none';", "script-src 'self';", "frame-ancestors 'none';", "form-action 'none';"} {
			if got := h.Get("Content-Security-Policy"); !strings.Contains(got, want) || strings.Contains(got, "unsafe") {
				t.Errorf("%s: %q lacks %q", c.path, got, want)
			}
		}
		if again := get(t, c.path, "If-None-Match", h.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s: asked again: %d", c.path, again.Code)
		}
	}
	for _, name := range []string{"/page/", "/page/none.js", "/page/index.html", "/index.html", "/page/../page.go"} {
		if w := get(t, name); w.Code == http.StatusOK {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

// TestSources: the page's own files set text as text, ask no other address and keep
// nothing, and what the page loads is there.
func TestSources(t *testing.T) {
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|localStorage|sessionStorage|document\.cookie|https?://|\sstyle=|\son[a-z]+=|javascript:`)
	named := regexp.MustCompile(`(?:src|href)="(page/[^"]+)"|from "\./([^"]+)"`)
	var loaded []string
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path.Base(name), "uplot") {
			return err
		}
		content, err := static.ReadFile(name)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		if found := never.FindString(text); found != "" {
			t.Errorf("%s has %q", name, found)
		}
		if lines := strings.Count(text, "\n"); lines > 400 {
			t.Errorf("%s has %d lines", name, lines)
		}
		testkit.Contains(t, text, "SPDX-License-Identifier: Apache-2.0")
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			loaded = append(loaded, "/page/"+strings.TrimPrefix(m[1]+m[2], "page/"))
		}
		return err
	})
	if err != nil || !slices.Contains(loaded, "/page/main.js") || !slices.Contains(loaded, "/page/dom.js") {
		t.Fatalf("%v; loaded %v", err, loaded)
	}
	for _, name := range loaded {
		if w := get(t, name); w.Code != http.StatusOK {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
