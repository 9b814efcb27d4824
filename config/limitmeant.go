// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
)

// foreign maps the parts of a limit to their keys in other limiters.
var foreign = map[string][]string{
	"quota":  {"rate", "limit", "quota", "count", "max", "requests", "requests_per_unit", "average", "events", "units"},
	"window": {"per", "period", "window", "unit", "interval", "duration", "every"},
	"burst":  {"burst", "capacity", "max_burst"},
}

// meantByKeys returns the remedy for a mapping with the keys of other limiters, or "" for any
// other mapping.
func meantByKeys(n *yaml.Node) string {
	parts, known := map[string]string{}, false
	for i := 0; i+1 < len(n.Content); i += 2 {
		for part, keys := range foreign {
			if slices.Contains(keys, strings.ToLower(n.Content[i].Value)) {
				parts[part], known = document.Resolved(n.Content[i+1]).Value, true
			}
		}
	}
	if !known {
		return ""
	}
	if quota, window, joined := strings.Cut(parts["quota"], "/"); joined {
		parts["quota"], parts["window"] = quota, window
	}
	text := parts["quota"] + "/" + windowWord(parts["window"])
	if _, err := strconv.ParseUint(parts["burst"], 10, 63); err == nil {
		text += " burst " + parts["burst"]
	}
	if _, err := sluice.ParseLimit(text); err != nil {
		return "60/min burst 10"
	}
	return text
}

// windowWord returns the window for a text of other limiters, such as 60s or minute.
func windowWord(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	for word, others := range map[string][]string{
		"s": {"second", "seconds", "sec", "1s", "1000ms"}, "min": {"minute", "minutes", "m", "1m", "60s", "1m0s"},
		"h": {"hour", "hours", "1h", "60m", "3600s"}, "day": {"days", "d", "24h", "86400s"},
	} {
		if slices.Contains(others, text) {
			return word
		}
	}
	if _, err := strconv.ParseUint(text, 10, 63); err == nil {
		return windowWord(text + "s")
	}
	return text
}
