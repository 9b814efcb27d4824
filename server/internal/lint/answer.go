// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
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
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.Name + ": " + f.Value
	}
	return strings.Join(texts, ", ")
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
