// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestFleet: the page of a node shows what all have counted, and who they are; that one
// has gone, and that the store has, is said; and there is what this node alone has counted.
func TestFleet(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	gates, end := startFleet(t, 3)
	for _, g := range gates {
		g.ask(t, 2, "/api/x", "ada")
	}
	const denied = `document.querySelector("#figures dt.denied").nextSibling.textContent`
	for _, c := range []struct {
		width  int64
		scheme string
	}{{390, "dark"}, {1440, "light"}} {
		b := open(t, c.width, c.scheme)
		b.show(t, gates[0])
		b.until(t, denied+`.startsWith("3 ")`)
		if got := b.text(t, "#nodes"); strings.Count(got, "reports") != 3 || strings.Count(got, "this node") != 1 {
			t.Errorf("nodes %q", got)
		}
		b.click(t, "#rules button")
		b.until(t, `document.querySelector("#rule").innerText.includes("By node")`)
		if got := b.text(t, "#rule"); !strings.Contains(got, "Denied 3 of 6 requests (50 %)") || !strings.Contains(got, "header.X-User=ada") {
			t.Errorf("rule %q", got)
		}
		if got := b.eval(t, `document.documentElement.scrollWidth`); got != fmt.Sprint(c.width) {
			t.Errorf("it is %s wide", got)
		}
		b.accessible(t, "the fleet")
	}
	b := open(t, 1440, "light")
	b.show(t, gates[1])
	b.until(t, denied+`.startsWith("3 ")`)
	gates[2].ask(t, 2, "/api/x", "ada")
	b.until(t, denied+`.startsWith("5 ")`) // without a reload
	b.click(t, `#whose [value="own"]`)
	b.until(t, denied+`.startsWith("1 ") && document.querySelector("#fleet").hidden`)
	b.click(t, `#whose [value="sum"]`)
	b.until(t, denied+`.startsWith("5 ") && !document.querySelector("#fleet").hidden`)
	gates[2].kill(t)
	b.until(t, `document.querySelector("#notes").innerText.includes("not in the sum") && document.querySelector("#nodes").innerText.includes("silent for")`)
	end()
	b.until(t, `document.querySelector("#headline").textContent.startsWith("Needs attention") && document.querySelector("#notes").innerText.includes("these are the counts of this node alone")`)
	gates[1].ask(t, 10, "/api/x", "ada")
	b.until(t, `/^Limits not applied since [0-9:]{8}\. /.test(document.querySelector("#headline").textContent)`)
}
