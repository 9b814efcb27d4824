// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// DecisionLog configures the log of decisions, a line for each request.
type DecisionLog struct {
	File string // or stdout, or stderr; empty: no log
	// Requests is "all", "denied" or "sample"; empty: all.
	Requests string
	Every    int64  // a sample has the requests of one key in Every
	By       string // the rule of these keys; empty: the client's address
	Plain    bool   // keys are written in clear, not hashed
	// SecretFile holds the secret with which keys are hashed; empty: a secret of the process.
	SecretFile string
}

// AccessLog configures the log of requests in the combined format.
type AccessLog struct {
	File string // or stdout, or stderr; empty: no log
}

func (d *decoder) decisionLog(n *yaml.Node, l *DecisionLog) {
	var keys string
	file := d.path("file", "A file, stdout or stderr; SIGHUP opens it again.", &l.File)
	before := d.Count()
	d.MappingOr(n, "decision_log", file.Read, file,
		document.Key("requests", "Which requests: all, denied, or {sample: 1/100} (default all).", func(n *yaml.Node) { d.logged(n, l) }),
		document.Key("keys", "hashed or plain (default hashed).", func(n *yaml.Node) { d.Choice(n, "keys", &keys, "hashed", "plain") }),
		d.path("secret_file", "File of the secret that keys are hashed with (default: a secret of the process).", &l.SecretFile),
	)
	if l.Plain = keys == "plain"; l.Plain && l.SecretFile != "" {
		d.Fault(document.Child(n, "secret_file"), "secret_file has no effect with keys: plain; leave one out")
	}
	if l.File == "" && d.Count() == before {
		d.Fault(n, "decision_log has no file; use file: decisions.jsonl, or stdout or stderr")
	}
}

// logged reads which requests are logged: a word, or a sample.
func (d *decoder) logged(n *yaml.Node, l *DecisionLog) {
	word := func(n *yaml.Node) { d.Choice(n, "requests", &l.Requests, "all", "denied") }
	sample := d.MappingOr(n, "requests", word,
		d.Scalar("sample", "Share of the keys, such as 1/100.", func(n *yaml.Node, s string) {
			one, every, ok := strings.Cut(s, "/")
			v, err := strconv.ParseInt(strings.ReplaceAll(every, "_", ""), 10, 64)
			if !ok || one != "1" || err != nil || v < 1 || v > 1_000_000_000 {
				d.Fault(n, "sample is %q; use one of how many keys, such as 1/100", document.Shorten(s))
				return
			}
			l.Every = v
		}),
		d.Word("by", "Rule of the keys (default: clients' addresses).", &l.By),
	)
	if !sample {
		return
	}
	if l.Requests = "sample"; document.Child(n, "sample") == nil {
		d.Fault(n, "requests has no size of the sample; use sample: 1/100")
	}
}

func (d *decoder) accessLog(n *yaml.Node, l *AccessLog) {
	file := d.path("file", "A file, stdout or stderr; SIGHUP opens it again.", &l.File)
	before := d.Count()
	d.MappingOr(n, "access_log", file.Read, file)
	if l.File == "" && d.Count() == before {
		d.Fault(n, "access_log has no file; use file: access.log, or stdout or stderr")
	}
}

// sampledRule adds a fault for a sample by an unknown rule, or by one without keys.
func (d *decoder) sampledRule(root *yaml.Node, c *Config) {
	if c.DecisionLog.By == "" || c.Policy == nil {
		return
	}
	by, rules := document.Child(document.Child(document.Child(root, "decision_log"), "requests"), "by"), c.Policy.Rules()
	i := slices.IndexFunc(rules, func(r policy.Rule) bool { return r.Name == c.DecisionLog.By })
	switch {
	case i < 0:
		d.Fault(by, "by is %q, and there is no such rule; name one of them, or leave by out for the client's address", document.Shorten(c.DecisionLog.By))
	case rules[i].Shape || !slices.ContainsFunc(rules[i].Levels, func(l policy.Level) bool { return len(l.By) > 0 }):
		d.Fault(by, "by: requests have no key of the rule %q; name a rule with a key that limits them, or leave by out for the client's address", rules[i].Name)
	}
}

// isStream reports whether a log is written to a standard stream of the process.
func isStream(file string) bool {
	return slices.Contains([]string{"stdout", "stderr", "/dev/stdout", "/dev/stderr"}, file)
}
