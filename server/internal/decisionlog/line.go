// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package decisionlog

import (
	"strconv"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// Append appends the line of a request, with its end. The line is at most 64 KiB long.
func (e *Encoder) Append(b []byte, r *front.Record) []byte {
	from := len(b)
	b = append(b, e.head...)
	b = append(b, `,"time":"`...)
	b = r.At.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, '"')
	b = append(b, e.sample...)
	b = appendOptional(b, `,"trace_id":`, traceID(r.Request.Header("Traceparent")))
	b = appendField(b, `,"method":`, r.Method, mostMethod)
	b = appendField(b, `,"host":`, r.Host, mostHost)
	b = appendField(b, `,"path":`, r.Request.Path(), mostPath)
	if client := r.Request.Client(); client.IsValid() {
		b = append(client.AppendTo(append(b, `,"client":"`...)), '"')
	}
	b = appendEvent(b, &r.Event)
	b = appendNumber(b, `,"status":`, int64(r.Status))
	b = appendNumber(b, `,"bytes":`, r.Out)
	if r.In >= 0 {
		b = appendNumber(b, `,"request_bytes":`, r.In)
	}
	b = appendMicros(b, `,"duration_us":`, r.Took)
	if r.Broken {
		b = append(b, `,"broken":true`...)
	}
	b = appendUpstream(b, r.Upstream)
	if v := r.Event.Evaluated; v != nil {
		b = e.appendRules(b, from, v)
	} else if r.Event.Charge.Key != "" {
		b = e.appendLimit(b, &r.Event)
	}
	return append(b, "}\n"...)
}

func appendEvent(b []byte, ev *evaluate.Event) []byte {
	b = append(append(append(b, `,"verdict":"`...), ev.Verdict.String()...), '"')
	if ev.Err != nil {
		b = appendField(b, `,"error":`, ev.Err.Error(), mostText)
	}
	if ev.Verdict == evaluate.Denied && ev.Limit != nil {
		b = appendRetry(b, ev.Decision.RetryAfter, ev.Decision.TooLarge)
	}
	if ev.Decision.Delay > 0 {
		b = appendMicros(b, `,"delay_us":`, ev.Decision.Delay)
	}
	if due := ev.Decision.Due; due > 0 && !ev.Decision.Degraded { // else the instant is marked, and no time
		b = appendNumber(b, `,"decided_us":`, int64(due)-ev.Decision.Delay.Microseconds())
	}
	return b
}

func appendUpstream(b []byte, u *front.Upstream) []byte {
	if u == nil || u.URL == "" {
		return b
	}
	b = appendField(b, `,"upstream":{"url":`, u.URL, mostText)
	b = appendOptional(b, `,"route":`, u.Route)
	if u.Status != 0 {
		b = appendNumber(b, `,"status":`, int64(u.Status))
		b = appendMicros(b, `,"header_us":`, u.Header)
	}
	b = appendNumber(b, `,"bytes":`, u.Bytes)
	b = appendMicros(b, `,"duration_us":`, u.Took)
	if u.Err != nil {
		b = appendField(b, `,"error":`, u.Err.Error(), mostText)
	}
	return append(b, '}')
}

// rules holds the entries of a line while they are appended.
type rules struct {
	*Encoder
	b    []byte
	from int // start of the line
	n    int
	cut  int
}

// begin begins an entry, and reports whether there is room for it.
func (l *rules) begin() bool {
	if l.n == mostRules || len(l.b)-l.from > mostLine {
		l.cut++
		return false
	}
	if l.n++; l.n > 1 {
		l.b = append(l.b, ',')
	}
	return true
}

func (e *Encoder) appendRules(b []byte, from int, v *evaluate.Verdict) []byte {
	l := rules{Encoder: e, b: append(b, `,"rules":[`...), from: from}
	_, bound := v.Binding(nil)
	i := 0
	for o := range v.Outcomes() {
		l.outcome(&o, bound && i == v.Decision.Binding)
		i++
	}
	l.inFlight(v.InFlight)
	if v.Refused != nil && l.begin() {
		l.b = appendField(l.b, `{"rule":`, v.Refused.Rule, mostName)
		l.b = append(l.b, `,"mode":"enforced","verdict":"refused"}`...)
	}
	for _, of := range v.Unlimited {
		l.named(of.Rule, of.Level, "unlimited")
	}
	for _, s := range v.Shapes {
		l.named(s.Rule, s.Level, "shape")
	}
	for s := range v.Trials() {
		l.side(&s)
	}
	l.b = append(l.b, ']')
	if l.cut > 0 {
		l.b = appendNumber(l.b, `,"rules_cut":`, int64(l.cut))
	}
	return l.b
}

// appendLimit appends the entry of the limit that binds and belongs to no rule: a limit of a file,
// or of the request itself.
func (e *Encoder) appendLimit(b []byte, ev *evaluate.Event) []byte {
	b = append(b, `,"rules":[{"rule":""`...)
	switch {
	case ev.Limit != nil: // not cached, as a request may bring it
		b = appendField(b, `,"limit":`, ev.Limit.Limit.String(), mostName)
	case len(ev.Violated) > 0: // of slots
		b = appendField(b, `,"limit":`, ev.Violated[0], mostName)
	}
	d := &ev.Decision
	o := sluice.Outcome{Allowed: ev.Verdict.Passes(), TooLarge: d.TooLarge, Remaining: d.Remaining, RetryAfter: d.RetryAfter}
	mode, end := "enforced", `,"binds":true}]`
	switch {
	case d.Degraded:
		mode = "degraded"
	case o.Allowed && len(ev.Violated) > 0:
		mode, end, o.Allowed = "shadow", "}]", false
	}
	b = append(append(append(b, `,"mode":"`...), mode...), '"')
	l := rules{b: appendNumber(e.appendKey(b, ev.Charge.Key), `,"cost":`, ev.Charge.Cost)}
	l.result(ev.Limit, &o, ev.Err)
	return append(l.b, end...)
}

// named appends a rule that applies but decides nothing before the response.
func (l *rules) named(r *policy.Rule, level *policy.Level, mode string) {
	if !l.begin() {
		return
	}
	l.b = appendField(l.b, `{"rule":`, r.Name, mostName)
	l.b = appendOptional(l.b, `,"level":`, level.Name)
	l.b = append(append(append(l.b, `,"mode":"`...), mode...), `","verdict":"allowed"}`...)
}

func (l *rules) outcome(o *evaluate.Outcome, binds bool) {
	if !l.begin() {
		return
	}
	l.b = append(l.b, l.head(o.Rule, o.Level, o.Limit)...)
	switch {
	case o.Degraded:
		l.b = append(l.b, `,"mode":"degraded"`...)
	case o.Grace:
		l.b = append(l.b, `,"mode":"grace"`...)
	case o.Soft:
		l.b = append(l.b, `,"mode":"soft"`...)
	default:
		l.b = append(l.b, `,"mode":"enforced"`...)
	}
	l.b = l.appendKey(l.b, o.Key)
	l.b = appendOptional(l.b, `,"tier":`, o.Tier)
	l.b = appendNumber(l.b, `,"cost":`, o.Cost)
	if o.Err != nil || o.Degraded {
		l.b = append(append(append(l.b, `,"failure":"`...), o.Rule.Failure.String()...), '"')
	}
	l.result(o.Limit, &o.Outcome, o.Err)
	if binds {
		l.b = append(l.b, `,"binds":true`...)
	}
	l.b = append(l.b, '}')
}

// result appends a limit's outcome. A block has no remaining units.
func (l *rules) result(limit *sluice.Term, o *sluice.Outcome, err error) {
	switch {
	case err != nil:
		l.b = append(l.b, `,"verdict":"failed"`...)
		l.b = appendField(l.b, `,"error":`, err.Error(), mostText)
		return
	case o.Allowed:
		l.b = append(l.b, `,"verdict":"allowed"`...)
	default:
		l.b = append(l.b, `,"verdict":"denied"`...)
	}
	if limit == nil || limit.Block.For == 0 {
		l.b = appendNumber(l.b, `,"remaining":`, o.Remaining)
	}
	if !o.Allowed {
		l.b = appendRetry(l.b, o.RetryAfter, o.TooLarge)
	}
}

func (l *rules) inFlight(f *evaluate.InFlight) {
	if f == nil || !l.begin() {
		return
	}
	l.b = appendField(l.b, `{"rule":`, f.Rule.Name, mostName)
	l.b = appendOptional(l.b, `,"level":`, f.Level.Name)
	l.b = strconv.AppendInt(append(l.b, `,"limit":"`...), f.Limit.Cap, 10)
	l.b = append(l.b, ` in flight","mode":"`...)
	if f.Decision.Degraded {
		l.b = append(l.b, `degraded"`...)
	} else {
		l.b = append(l.b, `enforced"`...)
	}
	l.b = l.appendKey(l.b, f.Key)
	l.b = append(l.b, `,"cost":1,"verdict":"denied","binds":true}`...)
}

// side appends the trial of a shadow rule or a candidate.
func (l *rules) side(s *evaluate.Trial) {
	if !l.begin() {
		return
	}
	if s.Limit != nil {
		l.b = append(l.b, l.head(s.Rule, s.Level, s.Limit)...)
	} else {
		l.b = appendField(l.b, `{"rule":`, s.Rule.Name, mostName)
	}
	if s.Candidate != nil {
		l.b = appendField(l.b, `,"mode":"candidate","candidate":`, s.Candidate.Name, mostName)
	} else {
		l.b = append(l.b, `,"mode":"shadow"`...)
	}
	l.b = l.appendKey(l.b, s.Key)
	l.b = appendNumber(l.b, `,"cost":`, s.Cost)
	l.result(s.Limit, &sluice.Outcome{Allowed: s.Allowed, TooLarge: s.Decision.TooLarge, Remaining: s.Decision.Remaining, RetryAfter: s.Decision.RetryAfter}, s.Err)
	l.b = append(l.b, '}')
}

// head returns the beginning of a limit's entry, which is cached.
func (l *rules) head(r *policy.Rule, level *policy.Level, limit *sluice.Term) []byte {
	if head, ok := l.limits.Load(limit); ok {
		return head.([]byte) //nolint:forcetypeassert // nothing else is ever stored
	}
	head := appendField(nil, `{"rule":`, r.Name, mostName)
	if level != nil {
		head = appendOptional(head, `,"level":`, level.Name)
	}
	head = appendField(head, `,"limit":`, limit.Limit.String(), mostName)
	l.limits.Store(limit, head)
	return head
}

// Bounds of texts from clients, in bytes before escaping. Longer texts are cut and end in an
// ellipsis.
const (
	mostMethod = 32
	mostHost   = 256
	mostPath   = 1024
	mostKey    = 256
	mostText   = 256 // of an error or a URL
	mostName   = 256 // of a node, a rule or a limit
)

// mostRules is the most entries of limits in a line, and mostLine the length in bytes after
// which no entry begins.
const (
	mostRules = 32
	mostLine  = 16 << 10
)

// traceID returns the trace id in a traceparent field of W3C Trace Context, or "" if that is
// not valid.
func traceID(fields []string) string {
	if len(fields) != 1 {
		return ""
	}
	const length = len("00-00000000000000000000000000000000-0000000000000000-00")
	f := fields[0]
	if len(f) < length || f[2] != '-' || f[35] != '-' || f[52] != '-' || f[:2] == "ff" ||
		len(f) > length && (f[:2] == "00" || f[length] != '-') {
		return ""
	}
	if !isHex(f[:2]) || !isID(f[3:35]) || !isID(f[36:52]) || !isHex(f[53:length]) {
		return ""
	}
	return f[3:35]
}

// isID reports whether a text consists of hexadecimal digits that are not all 0.
func isID(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return isHex(s)
		}
	}
	return false
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
