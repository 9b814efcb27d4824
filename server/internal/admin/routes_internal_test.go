// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/overview"
)

// TestRoutesPage: docs/admin-api.md lists all routes, and says which need the token.
func TestRoutesPage(t *testing.T) {
	page := testkit.ReadFile(t, "../../../docs/admin-api.md")
	row := regexp.MustCompile("(?m)^\\| `((?:GET|POST|PUT|DELETE) [^`]+)` \\| (no|yes|to read) \\|")
	var listed, want []string
	token := make(map[string]string)
	for _, m := range row.FindAllSubmatch(page, -1) {
		listed = append(listed, string(m[1]))
		token[string(m[1])] = string(m[2])
	}
	outside := []string{"GET /healthz", "GET /readyz", "GET /metrics", "GET /"}
	want = append(want, outside...)
	for _, route := range (&API{}).routes() {
		want = append(want, route.pattern)
		if said := token[route.pattern]; (said == "yes") != route.token {
			t.Errorf("%s: the page says of the token %q", route.pattern, said)
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the page lists %q, want %q", listed, want)
	}
	h := Handler(Options{
		Metrics: http.NotFoundHandler(), Ready: func() bool { return true }, Store: func() (string, bool) { return "", true },
		Config: func() string { return "" }, Problems: func() []overview.Problem { return nil },
	})
	for _, path := range []string{"/healthz", "/readyz", "/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
		if w.Code != http.StatusOK {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
}
