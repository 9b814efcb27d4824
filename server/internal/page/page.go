// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package page serves the dashboard: static files without data. A browser reads the data from
// the admin API, which checks its rights.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

// rules is the Content-Security-Policy of the page: it may load files from this address, and
// nothing else.
const rules = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Asset returns a file of the page, for reports that embed it.
func Asset(name string) ([]byte, error) { return static.ReadFile("static/" + name) }

// file is a file that is served.
type file struct {
	name, kind, tag string
	content         []byte
}

// Handler returns the handler of GET / for the page and of GET /page/NAME for its files.
// Browsers revalidate each file, so that a page never mixes files of two versions.
func Handler() (http.Handler, error) {
	mux := http.NewServeMux()
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		f := file{name: path.Base(name), tag: `"` + hex.EncodeToString(sum[:12]) + `"`, content: content}
		switch path.Ext(name) { // not from the types that this machine lists
		case ".html":
			f.kind = "text/html; charset=utf-8"
		case ".js":
			f.kind = "text/javascript; charset=utf-8"
		case ".css":
			f.kind = "text/css; charset=utf-8"
		case ".svg":
			f.kind = "image/svg+xml"
		default:
			f.kind = "text/plain; charset=utf-8"
		}
		if f.name == "index.html" {
			mux.Handle("GET /{$}", f)
			return nil
		}
		mux.Handle("GET /page/"+f.name, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return mux, nil
}

// ServeHTTP answers with the file.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Content-Security-Policy", rules)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.content))
}
