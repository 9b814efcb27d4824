// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/profile"
)

// answerWords describes the responses of a rule.
func answerWords(a *policy.Answer) (lines []string) {
	if a == nil {
		return nil
	}
	if len(a.Fields) > 0 {
		lines = append(lines, "every response has "+fieldWords(a.Fields))
	}
	denial := func(of string, a *policy.Answer) {
		var parts []string
		if a.Status != 0 {
			parts = append(parts, fmt.Sprintf("status %d", a.Status))
		}
		if a.Body != "" {
			parts = append(parts, "a body of its own")
		}
		if len(a.Denied) > 0 {
			parts = append(parts, fieldWords(a.Denied))
		}
		if len(parts) > 0 {
			lines = append(lines, "a denial"+of+" is answered by "+strings.Join(parts, ", "))
		}
		if a.Status == http.StatusOK {
			lines = append(lines, "status 200 is a success to every client, retry and monitor that does not read the body")
		}
	}
	denial("", a)
	for _, name := range slices.Sorted(maps.Keys(a.Limits)) {
		of := a.Limits[name]
		denial(" by "+name, &of)
	}
	return lines
}

func fieldWords(fields []policy.AnswerField) string {
	return joined(fields, ", ", func(f policy.AnswerField) string { return f.Name + ": " + f.Value })
}

// profileWords describes the profiles of a rule, and what they leave out.
func profileWords(names []string) (lines []string) {
	for _, name := range names {
		p, _ := profile.Get(name)
		lines = append(lines, "like "+p.Name+": "+p.Title)
		for _, text := range p.Differs {
			lines = append(lines, "  but "+text)
		}
	}
	return lines
}

// profileLimits returns the limits of profiles.
func profileLimits(names []string) (limits []sluice.Limit) {
	for _, name := range names {
		p, _ := profile.Get(name)
		limits = append(limits, p.Limits...)
	}
	return limits
}

// blockWords describes a block.
func blockWords(b sluice.Limit) string {
	l := b.Filled()
	return fmt.Sprintf("block %s: %s", l.Name, algo.WorstOf(l))
}

// shortBlocks warns of blocks that deny for no longer than the limits do.
func shortBlocks(r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		l := &r.Levels[i]
		most := shortestDenial(l)
		for _, b := range l.Blocks {
			if block, _ := b.Algorithm.(sluice.Block); block.For <= most {
				texts = append(texts, fmt.Sprintf("every limit may deny for %s by itself, and the block %s no longer: write a longer one than %s, or leave it out",
					amount.Lasting(most), b.Filled().Name, amount.Lasting(block.For)))
			}
		}
	}
	return texts
}

// shortestDenial returns for how long each of a level's limits may deny a request of one unit,
// roughly for buckets, and of these the shortest; 0 without limits.
func shortestDenial(l *policy.Level) (least time.Duration) {
	for i := range l.Limits {
		f := l.Limits[i].Filled()
		d := f.Window
		if b, _ := f.Algorithm.(sluice.TokenBucket); f.Burst > 0 && b.Refill == sluice.Continuous {
			d /= time.Duration(f.Quota)
		}
		if least == 0 || d < least {
			least = d
		}
	}
	return least
}

// blockHints hints at keys under which a client may get another one blocked.
func blockHints(c *config.Config) (hints []Hint) {
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		for j := range r.Levels {
			if l := &r.Levels[j]; len(l.Blocks) > 0 && !r.Shadow {
				if text := blocksOthers(r, l); text != "" {
					hints = append(hints, Hint{c.File, c.Line(i), fmt.Sprintf("rule %q: %s", r.Name, text)})
				}
			}
		}
	}
	return hints
}

// blocksOthers returns why a client may get others blocked, or "" if it may not.
func blocksOthers(r *policy.Rule, l *policy.Level) string {
	if len(l.By) == 0 {
		return "all clients have one key, and a client that is denied often enough has all others blocked; use by: ip, or leave out the block"
	}
	for _, p := range l.By {
		if !slices.ContainsFunc(p.Parts(), func(p policy.Part) bool { return chosen(r, p) }) {
			return ""
		}
	}
	return fmt.Sprintf("clients choose the %s, and a client that sends another's has it blocked; let a proxy in front set it, take a claim, or add ip",
		partsWords(l.By, " and "))
}
