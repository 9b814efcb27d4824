// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"net/http"
	"strings"
	"testing"
)

// TestFindings: what there is to be said of any rule stands at the top of the page.
func TestFindings(t *testing.T) {
	t.Parallel()
	g := start(t, true)
	g.ask(t, 130, "/api/x", "loud")
	for _, user := range []string{"a", "b", "c", "d", "e"} {
		g.ask(t, 1, "/api/x", user)
	}
	b := open(t, 1440, "light")
	b.show(t, g)
	b.until(t, `document.querySelector("#notes").innerText.includes("api: one key makes most denials: 127 or more of 127, of about 6 keys")`)
}

// TestOverrides: an override is listed by the parts of its key, and a button ends it, once
// the page knows who does.
func TestOverrides(t *testing.T) {
	t.Parallel()
	g := start(t, false)
	put := func(user string) {
		t.Helper()
		doc := `{"rule": "api", "parts": {"header.X-User": "` + user + `"}, "limits": ["50/min"], "reason": "a partner", "author": "eve"}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, g.page+"v1/override", strings.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
	}
	put("ada")
	put("bob")
	b := open(t, 1440, "light")
	b.show(t, g)
	b.until(t, `document.querySelector("#key").innerText.includes("Overrides (2)")`)
	const ada = `[...document.querySelectorAll('#key [aria-label="Overrides"] tr')].find((r) => r.innerText.includes("header.X-User=ada"))`
	b.accessible(t, "a page with overrides")
	b.eval(t, ada+`.querySelector("button").click()`) // nobody has said who
	if got := b.eval(t, `document.activeElement.labels?.[0]?.textContent`); got != "Your name (to end one)" {
		t.Errorf("without a name, %q has the focus", got)
	}
	b.eval(t, `[...document.querySelectorAll("#key label")].find((l) => l.textContent === "Your name (to end one)").control.focus()`)
	b.eval(t, `document.activeElement.value = "mallory"`)
	b.eval(t, ada+`.querySelector("button").click()`)
	b.until(t, `document.querySelector("#key").innerText.includes("Overrides (1)")`)
	if got := b.text(t, "#key"); strings.Contains(got, "header.X-User=ada") || !strings.Contains(got, "header.X-User=bob") || !strings.Contains(got, "Override removed: on this node only.") {
		t.Errorf("behind the end: %q", got)
	}
	if audit := g.read(t, "audit.jsonl"); strings.Count(audit, `"action":"end-override","author":"mallory"`) != 1 || !strings.Contains(audit, `"parts":{"header.X-User":"ada"}`) {
		t.Errorf("audit:\n%s", audit)
	}
}
