// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package browser tests the page in a browser, on a running sluice.
package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/internal/testkit"
)

const token = "0123456789abcdef0123456789abcdef"

// program is the path of sluice, which is built once.
var program string

func TestMain(m *testing.M) {
	status := 1
	dir, err := os.MkdirTemp("", "sluice")
	if err == nil {
		program = filepath.Join(dir, "sluice")
		cmd := exec.Command("go", "build", "-o", program, "./cmd/sluice")
		cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join("..", "..", ".."), os.Stderr, os.Stderr
		if err = cmd.Run(); err == nil {
			status = m.Run()
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

// gate is a sluice that runs as a process of its own.
type gate struct {
	dir, url, page string
	cmd            *exec.Cmd
	exited         chan struct{}
}

// start runs sluice, with a token if it is protected.
func start(t *testing.T, protected bool) *gate {
	t.Helper()
	return startWith(t, protected, "")
}

// startWith runs sluice with more in its file.
func startWith(t *testing.T, protected bool, more string) *gate {
	t.Helper()
	g := &gate{dir: t.TempDir()}
	listen, admin := testkit.FreeAddress(t), testkit.FreeAddress(t)
	g.url, g.page = "http://"+listen, "http://"+admin+"/"
	file := fmt.Sprintf("listen: %s\nadmin: {address: %s, audit_file: audit.jsonl%s}\ndecision_log: decisions.jsonl\n%srules:\n%s", listen, admin, map[bool]string{true: ", token_file: token"}[protected], more, rules)
	g.write(t, "token", token)
	g.write(t, "sluice.yaml", file)
	g.run(t)
	return g
}

// startFleet runs so many gateways that share a store, and returns what ends that.
func startFleet(t *testing.T, n int) (gates []*gate, end func()) {
	t.Helper()
	address := testkit.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; install it, on Debian: apt-get install redis-server", err)
	}
	var once sync.Once
	end = func() {
		once.Do(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // it is killed
		})
	}
	t.Cleanup(end)
	for range n {
		g := startWith(t, false, fmt.Sprintf("store: {redis: {url: \"redis://%s?timeout=1s\"}}\n", address))
		g.awaitStore(t)
		gates = append(gates, g)
	}
	return gates, end
}

// awaitStore waits until requests are decided by the store: before that they are not counted.
func (g *gate) awaitStore(t *testing.T) {
	t.Helper()
	testkit.Until(t, "the store to be up", func() bool {
		resp, err := http.Get(g.page + "readyz")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "store: up")
	})
}

func (g *gate) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g *gate) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run starts the process, and waits until its page is announced.
func (g *gate) run(t *testing.T) {
	t.Helper()
	g.cmd = exec.Command(program, "serve", "--config", "sluice.yaml")
	g.cmd.Dir = g.dir
	out, err := g.cmd.StdoutPipe()
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd, exited := g.cmd, make(chan struct{})
	g.exited = exited
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-exited
	})
	lines := bufio.NewScanner(out)
	announced := false
	for !announced && lines.Scan() {
		announced = strings.HasPrefix(lines.Text(), "  page   "+g.page)
	}
	go func() {
		defer close(exited)
		for lines.Scan() { // until it ends
			continue
		}
		_ = cmd.Wait() // it is killed
	}()
	if !announced {
		t.Fatal("no page is announced")
	}
}

// kill ends the process at once.
func (g *gate) kill(t *testing.T) {
	t.Helper()
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.exited
}

// ask sends so many requests of a user.
func (g *gate) ask(t *testing.T, n int, path, user string) {
	t.Helper()
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-User", user)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// tab is a page in a browser.
type tab struct {
	ctx context.Context //nolint:containedctx // it is what a tab is to chromedp
}

// open starts a browser. What it refuses to a page, or a page does not catch, fails
// the test at its end.
func open(t *testing.T, width int64, scheme string) *tab {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatalf("%v; install it, on Debian: apt-get install chromium", err)
	}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath("chromium"), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true)))
	b := &tab{ctx}
	b.do(t, chromedp.EmulateViewport(width, 900))
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		t.Fatal(err)
	}
	listening, stop := context.WithCancel(ctx)
	messages, done := chromedp.Console(listening), make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Source != "network" { // an answer that the page shows
				t.Errorf("the browser says: %v", m)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		cancel()
	})
	return b
}

func (b *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// click clicks on the first of some elements as it is at this moment: what is shown may
// be drawn anew at any.
func (b *tab) click(t *testing.T, selector string) {
	t.Helper()
	b.eval(t, fmt.Sprintf("document.querySelector(%q).click()", selector))
}

// eval returns what an expression is in the page, as a text.
func (b *tab) eval(t *testing.T, expression string) string {
	t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("(async () => String(await ("+expression+")))()", chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// text returns what is shown of an element.
func (b *tab) text(t *testing.T, selector string) string {
	t.Helper()
	return b.eval(t, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// until waits until an expression is true.
func (b *tab) until(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(testkit.Ceiling); b.eval(t, "!!("+expression+")") != "true"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never becomes true that %s; the page shows:\n%s", expression, b.text(t, "body"))
		}
	}
}

// show opens the page, and waits until it shows something.
func (b *tab) show(t *testing.T, g *gate) {
	t.Helper()
	b.do(t, chromedp.Navigate(g.page))
	b.until(t, `document.querySelector("#link").textContent === "Live"`)
}

// enter writes into a field, by keys.
func (b *tab) enter(t *testing.T, selector, text string) {
	t.Helper()
	b.do(t, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// prepare makes the page, when it is opened, count what it asks as asked, keep its streams,
// and tick only when later says so, which lets seconds pass. Between hold and release
// overviews wait.
func (b *tab) prepare(t *testing.T) {
	t.Helper()
	const script = `{
  let ahead = 0, gate = Promise.resolve();
  const now = Date.now.bind(Date), ask = fetch.bind(window), Source = EventSource, ticks = [];
  Object.assign(window, {
    asked: 0, held: 0, streams: [],
    fetch: async (...of) => {
      window.asked++;
      const answer = await ask(...of);
      if (String(of[0]).includes("overview")) {
        window.held++;
        await gate;
        window.held--;
      }
      return answer;
    },
    EventSource: class extends Source {
      constructor(...of) {
        super(...of);
        window.asked++;
        window.streams.push(this);
      }
    },
    setInterval: (tick) => ticks.push(tick),
    hold: () => { gate = new Promise((done) => (window.release = () => { gate = Promise.resolve(); done(); })); },
    later: (seconds) => {
      for (let i = 0; i < seconds; i++) {
        ahead += 1000;
        ticks.forEach((tick) => tick());
      }
    },
  });
  Date.now = () => now() + ahead;
}`
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		t.Fatal(err)
	}
}

// seen makes the page one that is seen, or hidden.
func (b *tab) seen(t *testing.T, seen bool) {
	t.Helper()
	b.eval(t, fmt.Sprintf(`(Object.defineProperty(document, "hidden", { value: %t, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`, !seen))
}

// accessible has axe look for what keeps people out of what is shown.
func (b *tab) accessible(t *testing.T, what string) {
	t.Helper()
	axe, err := os.ReadFile("testdata/axe.js")
	if err != nil {
		t.Fatal(err)
	}
	b.do(t, chromedp.Evaluate[chromedp.Void](string(axe)))
	const found = `axe.run().then((r) => r.violations.map((v) => v.id + ": " + v.help + "\n" + v.nodes.map((n) => "  " + n.html + " " + n.failureSummary).join("\n")).join("\n"))`
	if got := b.eval(t, found); got != "" {
		t.Errorf("axe, of %s: %s", what, got)
	}
}

func (b *tab) login(t *testing.T) {
	t.Helper()
	b.click(t, "#log")
	b.enter(t, "#token", token+"\r")
	b.until(t, `document.querySelector("#log").textContent === "Log out" && document.querySelector("#key form")`)
}
