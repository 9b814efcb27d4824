// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/internal/testkit"
)

const rules = `  - {name: api, match: {path: /api/}, by: header.X-User, limits: 3/h sliding-log, block: 1h after 1000 denials/h, in_flight: 40}
  - {name: dry, match: {path: /dry}, by: header.X-User, limits: 1/min sliding-log, mode: shadow}
  - {name: idle, match: {path: /never}, by: ip, limits: 5/s}
  - {name: __proto__, match: {path: /proto}, by: header.X-User, limits: 1/min sliding-log, candidates: {none: 1/h sliding-log}}
`

// hostile is a key that a stranger has sent.
const hostile = `<img src=x onerror="document.title='gone'">`

// TestPage: what is denied is shown as it happens; keys in clear to who has logged
// in; and a client that has may look a key up, reset it and give it other limits. What comes from
// strangers is text, and the token is nowhere.
func TestPage(t *testing.T) {
	t.Parallel()
	g := start(t, true)
	g.ask(t, 5, "/api/x", hostile)
	b := open(t, 1440, "light")
	b.show(t, g)
	denied := `document.querySelector("#figures dt.denied").nextSibling.textContent`
	b.until(t, denied+`.startsWith("2 ")`)
	g.ask(t, 4, "/api/x", hostile)
	g.ask(t, 3, "/dry", "bob")
	b.until(t, denied+`.startsWith("6 ")`) // without a reload
	b.until(t, `document.querySelector("#figures dt.would_deny").nextSibling.textContent.startsWith("2 ")`)
	if got := b.text(t, "#headline"); !strings.HasPrefix(got, "Healthy. 50 % of requests denied") || !strings.HasSuffix(got, "most by api") {
		t.Errorf("headline %q", got)
	}
	if got := b.text(t, "#rules tbody tr"); !strings.Contains(got, "3/hour sliding-log by header.X-User") || !strings.Contains(got, "\t3\t6\t67 %\t") {
		t.Errorf("rule %q", got)
	}
	if got := b.text(t, "#key"); !strings.Contains(got, "Log in") || strings.Contains(b.text(t, "body"), "<img") {
		t.Errorf("keys before the log-in: %q", got)
	}

	b.click(t, "#log")
	b.enter(t, "#token", "not the token at all\r")
	b.until(t, `document.querySelector("#login .fault").textContent.includes("not the token")`)
	b.enter(t, "#token", token+"\r")
	b.until(t, `!document.querySelector("#login").open && document.querySelector("#key form")`)
	b.until(t, fmt.Sprintf(`document.querySelector("#tops tbody")?.innerText.startsWith(%q)`, "header.X-User="+hostile+"\tapi\t6"))
	b.click(t, "#rules button")
	b.until(t, fmt.Sprintf(`document.querySelector("#rule button.link")?.innerText === %q`, "header.X-User="+hostile))
	if got := b.text(t, "#rule"); !strings.Contains(got, "Denied 6 of 9 requests (67 %)") {
		t.Errorf("rule %q", got)
	}
	b.click(t, "#rule button.link")
	b.until(t, `document.querySelector(".state-of-key")?.innerText.includes("0 of 3")`)
	if got := b.text(t, ".state-of-key"); !strings.Contains(got, "In flight: 0 of 40, 40 free.") {
		t.Errorf("key of a rule with slots: %q", got)
	}
	if got := b.text(t, `#key [aria-label="Last decisions"]`); strings.Count(got, "denied 429") != 6 || strings.Count(got, "GET /api/x") != 9 || !strings.Contains(got, "3/hour sliding-log") {
		t.Errorf("last decisions %q", got)
	}
	if got := b.text(t, ".state-of-key"); !strings.Contains(got, "not blocked") || strings.Contains(got, "9,007,199") || strings.Contains(got, "of 0") {
		t.Errorf("the block of the key is %q", got)
	}
	b.click(t, ".state-of-key summary")
	b.enter(t, ".state-of-key input", "eve")
	b.click(t, ".state-of-key [value=reset]")
	b.until(t, `document.querySelector(".state-of-key").innerText.includes("3 of 3")`)
	b.click(t, ".state-of-key summary")
	b.click(t, ".state-of-key [value=override]")
	b.until(t, `document.querySelector("#key .fault").innerText.includes("reason is missing")`)
	b.enter(t, ".state-of-key .field:nth-of-type(2) input", "a partner")
	b.enter(t, ".state-of-key [placeholder]", "50/min\r")
	b.click(t, ".state-of-key [value=override]")
	b.until(t, `document.querySelector(".state-of-key").innerText.includes("50 of 50") && document.querySelector("#key").innerText.includes("Overrides (1)")`)
	b.click(t, ".state-of-key summary")
	b.click(t, ".state-of-key [value=remove]")
	b.until(t, `document.querySelector(".state-of-key").innerText.includes("3 of 3") && !document.querySelector("#key").innerText.includes("Overrides (")`)

	audit := g.read(t, "audit.jsonl")
	for _, want := range []string{`"action":"log-in"`, `"action":"reset","author":"eve"`, `"action":"override","author":"eve"`, `"action":"end-override","author":"eve"`} {
		if n := strings.Count(audit, want); n != 1 { // Enter in a field changes nothing
			t.Errorf("audit has %d times %s:\n%s", n, want, audit)
		}
	}
	if got := b.eval(t, `document.title + document.querySelectorAll("img").length`); strings.Contains(got, "gone") || !strings.HasSuffix(got, "0") {
		t.Errorf("a key was taken for HTML: %q", got)
	}
	if got := b.eval(t, `document.cookie + localStorage.length + sessionStorage.length + location.href`); got != "00"+g.page+"#rule=api" {
		t.Errorf("the page keeps %q", got)
	}
	b.click(t, "#log")
	b.until(t, `document.querySelector("#key").innerText.includes("Log in") && !document.body.innerText.includes("<img")`)
}

// TestLost: a page says that a gateway has gone, or hangs, that what it shows is
// of before, and goes on by itself when that is back.
func TestLost(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	g := start(t, false)
	g.ask(t, 5, "/api/x", "ada")
	b := open(t, 1440, "light")
	b.show(t, g)
	lost := func() {
		t.Helper()
		b.until(t, `document.querySelector("#headline").textContent === "Connection to sluice lost" && document.title.startsWith("(!)")`)
		if got := b.text(t, "#notes") + b.text(t, "#link"); !strings.Contains(got, "shows the state of that time") || !strings.Contains(got, "Not connected") {
			t.Errorf("notes %q", got)
		}
	}
	back := func() {
		t.Helper()
		b.until(t, `document.querySelector("#link").textContent === "Live" && !document.body.classList.contains("lost")`)
	}
	g.kill(t)
	lost()
	g.run(t)
	back()
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := g.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if s == syscall.SIGSTOP {
			lost()
		}
	}
	back()
}

// TestReload: a file that is not active is reported at once, and so is that it is.
func TestReload(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	g := start(t, false)
	b := open(t, 390, "dark")
	b.show(t, g)
	good := g.read(t, "sluice.yaml")
	g.write(t, "sluice.yaml", strings.Replace(good, "3/h", "3/hour-or-so", 1))
	b.until(t, `document.querySelector("#headline").textContent.startsWith("Needs attention") && document.querySelector("#notes").textContent.includes("sluice.yaml has errors and was not loaded. The previous version (") && document.querySelector("#notes").textContent.includes("hour-or-so")`)
	g.write(t, "sluice.yaml", strings.Replace(good, "3/h", "4/h", 1))
	b.until(t, `document.querySelector("#headline").textContent.startsWith("Healthy") && document.querySelector("#rules").textContent.includes("4/hour")`)
}

// TestHidden: a page that nobody sees asks nothing, and is as of now when it is
// seen again.
func TestHidden(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	g := start(t, false)
	b := open(t, 1440, "light")
	b.prepare(t)
	b.show(t, g)
	b.eval(t, `(hold(), streams.at(-1).dispatchEvent(new Event("error")), later(31))`)
	b.until(t, `held > 0`) // seen, it reads everything anew
	b.seen(t, false)
	b.eval(t, `release()`)
	b.until(t, `held === 0`)
	before := b.eval(t, `asked`)
	g.ask(t, 5, "/api/x", "ada")
	b.eval(t, `later(600)`)
	if got := b.eval(t, `asked + " " + streams.every((s) => s.readyState === EventSource.CLOSED)`); got != before+" true" || strings.Contains(b.text(t, "#figures"), "2 40 %") {
		t.Errorf("hidden, it has asked %s times before, and then, with its streams closed: %s", before, got)
	}
	b.seen(t, true)
	b.until(t, `document.querySelector("#figures dt.denied").nextSibling.textContent.startsWith("2 ")`)
}

// TestGarbage: what comes as an event and is none makes the page read everything anew, and
// breaks nothing.
func TestGarbage(t *testing.T) {
	t.Parallel()
	g := start(t, false)
	b := open(t, 1440, "light")
	b.prepare(t)
	b.show(t, g)
	for _, garbage := range []string{`{`, ``, `null`, `7`, `{"time": "never"}`, `{"total": {}}`, `{"time": "9999-01-01T00:00:00Z", "rules": 7}`} {
		b.until(t, `streams.at(-1).readyState === EventSource.OPEN`)
		before := b.eval(t, `asked`)
		b.eval(t, fmt.Sprintf(`streams.at(-1).dispatchEvent(new MessageEvent("counts", { data: %q })), later(3)`, garbage))
		b.until(t, `asked > `+before)
	}
	b.until(t, `streams.at(-1).readyState === EventSource.OPEN`)
	g.ask(t, 5, "/api/x", "ada")
	b.until(t, `document.querySelector("#figures dt.denied").nextSibling.textContent.startsWith("2 ")`)
}

// TestBusy: who logs in while the page reads what there is for others sees keys at once.
func TestBusy(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	g := start(t, true)
	b := open(t, 1440, "light")
	b.prepare(t)
	b.show(t, g)
	b.eval(t, `hold()`)
	b.seen(t, true)
	b.until(t, `held > 0`)
	b.click(t, "#log")
	b.enter(t, "#token", token+"\r")
	b.until(t, `!document.querySelector("#login").open`)
	b.eval(t, `release()`)
	b.until(t, `document.querySelector("#log").textContent === "Log out" && document.querySelector("#key form")`)
}

// TestNames: names that mean something to JavaScript are names as others.
func TestNames(t *testing.T) {
	t.Parallel()
	g := start(t, false)
	b := open(t, 1440, "light")
	b.prepare(t) // nothing is read anew while it shows
	b.show(t, g)
	g.ask(t, 3, "/proto", "ada")
	cell := `document.querySelectorAll("#rules tbody tr")[3].innerText.includes("\t1\t2\t67 %\t2\t")`
	b.until(t, cell)
	before := b.eval(t, `asked`)
	b.seen(t, true) // read anew it is the same
	b.until(t, `asked >= 2 + `+before)
	b.until(t, cell)
	b.enter(t, "#explain [placeholder='/orders?q=1']", "/proto")
	b.enter(t, "#explain textarea", "constructor: x")
	b.click(t, "#explain button.main")
	b.until(t, `document.querySelector("#explain .verdict")`)
}

// TestUse: the page is of use by keys, to readers of screens, narrow and wide, light
// and dark.
func TestUse(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	g := start(t, true)
	g.ask(t, 5, "/api/x", "ada")
	for _, c := range []struct {
		width  int64
		scheme string
	}{{390, "light"}, {390, "dark"}, {1440, "light"}, {1440, "dark"}} {
		t.Run(fmt.Sprint(c.width, c.scheme), func(t *testing.T) {
			b := open(t, c.width, c.scheme)
			b.show(t, g)
			b.do(t, chromedp.KeyEvent("\t"))
			if got := b.eval(t, `document.activeElement.className + document.activeElement.getBoundingClientRect().left`); got != "skip8" {
				t.Errorf("the first key leads to %q", got)
			}
			// From link to button to field, and each shows where one is.
			for range 6 {
				b.do(t, chromedp.KeyEvent("\t"))
				if got := b.eval(t, `(() => { const e = document.activeElement; return [e, e.nextElementSibling ?? e].some((x) => getComputedStyle(x).outlineStyle !== "none") })()`); got != "true" {
					t.Errorf("no focus is shown on %s", b.eval(t, `document.activeElement.outerHTML`))
				}
			}
			b.login(t)
			b.click(t, "#rules button")
			b.until(t, `document.querySelector("#rule button.link")`)
			b.click(t, "#rule button.link")
			b.until(t, `document.querySelector(".state-of-key")`)
			b.eval(t, `document.querySelectorAll("details").forEach((d) => (d.open = true))`)
			b.until(t, `document.querySelector("#numbers tbody tr")`)
			if got := b.eval(t, `document.documentElement.scrollWidth`); got != fmt.Sprint(c.width) {
				t.Errorf("it is %s wide", got)
			}
			b.accessible(t, "the page")
			b.click(t, "#log")
			b.until(t, `document.querySelector("#log").textContent === "Log in"`)
			b.click(t, "#log")
			b.until(t, `document.querySelector("#login").open`)
			b.accessible(t, "the dialog")
		})
	}
}

// TestProblems: the headline names what goes wrong, with its cause, and the tiles add up to
// all requests; while the store is away each rule says what it does.
func TestProblems(t *testing.T) {
	t.Parallel()
	g := startWith(t, false, "deny: [127.0.0.0/8]\n")
	away := startWith(t, false, fmt.Sprintf("store: {redis: {url: \"redis://%s\"}}\n", testkit.FreeAddress(t)))
	b := open(t, 1440, "light")
	b.show(t, g)
	b.until(t, `document.querySelector("#headline").textContent.startsWith("Healthy. No requests")`)
	g.ask(t, 12, "/api/x", "ada")
	b.until(t, `document.querySelector("#headline").textContent.startsWith("12 of 12 requests got 403: ")`) // without a reload
	if got := b.text(t, "#figures"); !strings.Contains(got, "Requests\n12") || !strings.Contains(got, "Refused\n12 100 %") || strings.Contains(got, "Delayed") {
		t.Errorf("figures %q", got)
	}
	b.accessible(t, "problems")
	away.ask(t, 3, "/api/x", "ada")
	b.show(t, away)
	b.until(t, `document.querySelector("#headline").textContent.startsWith("Limits not applied since ")`)
	b.until(t, `document.querySelector("#rules").innerText.includes("without the store: no limit")`)
	if got := b.text(t, "#figures"); !strings.Contains(got, "Requests\n3") || !strings.Contains(got, "No limit\n3 100 %") || !strings.Contains(got, "Allowed\n0") {
		t.Errorf("figures %q", got)
	}
}
