// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// answer is the answer to a request.
type answer struct {
	Allowed   bool     `json:"allowed"`
	Verdict   string   `json:"verdict,omitempty"`
	Limit     string   `json:"limit,omitempty"`     // that binds
	Unlimited bool     `json:"unlimited,omitempty"` // no limit applies
	Cost      *int64   `json:"cost,omitempty"`
	Remaining *int64   `json:"remaining,omitempty"`
	Spent     *int64   `json:"spent,omitempty"`
	RetryMS   int64    `json:"retry_after_ms,omitempty"`
	ResetMS   int64    `json:"reset_after_ms,omitempty"`
	DelayMS   int64    `json:"delay_ms,omitempty"`
	TooLarge  bool     `json:"too_large,omitempty"`
	Violated  []string `json:"violated,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	Degraded  bool     `json:"degraded,omitempty"`
	ID        string   `json:"id,omitempty"`
	Hold      string   `json:"hold,omitempty"`
	Receipt   string   `json:"receipt,omitempty"`
	Held      *int64   `json:"held,omitempty"`
	Free      *int64   `json:"free,omitempty"`
}

var holdStates = map[sluice.HoldState]string{
	sluice.HoldOpen: "open", sluice.HoldSettled: "settled", sluice.HoldExpired: "expired",
	sluice.HoldUnknown: "unknown", sluice.HoldsFull: "full", sluice.HoldDiffers: "differs",
}

var holdDetails = map[sluice.HoldState]string{
	sluice.HoldsFull:   "the key, or the store, has as many holds as it can; settle some, or retry later",
	sluice.HoldDiffers: "the id is that of a request of another cost; use another id",
	sluice.HoldUnknown: "the hold is not known; nothing was charged",
}

// answerOf returns the answer to a request that was decided.
func answerOf(e *evaluate.Event) answer {
	d := &e.Decision
	a := answer{
		Allowed: e.Verdict.Passes(), Verdict: e.Verdict.String(), Violated: e.Violated,
		Degraded: d.Degraded || e.Verdict == evaluate.FailedOpen || e.Verdict == evaluate.FailedClosed,
		DelayMS:  millis(d.Delay), TooLarge: d.TooLarge,
	}
	if wait, ok := e.Retry(); ok {
		a.RetryMS = millis(wait)
	}
	if !a.Allowed {
		a.Detail = string(e.AppendDetail(nil))
	}
	if e.Limit != nil {
		cost, remaining := e.Charge.Cost, d.Remaining
		a.Limit, a.Cost, a.Remaining, a.ResetMS = e.Limit.Name, &cost, &remaining, millis(d.ResetAfter)
	} else {
		a.Unlimited = a.Allowed && !a.Degraded
	}
	a.setHold(d.Hold)
	if a.Allowed && d.Hold == 0 && d.Spent > 0 && d.At > 0 {
		a.Receipt = receipt{d.At, d.Due, d.Spent}.String()
	}
	return a
}

func (a *answer) setHold(state sluice.HoldState) {
	a.Hold = holdStates[state]
	if detail := holdDetails[state]; detail != "" {
		a.Detail = detail
	}
}

// batch is the answer to a batch.
type batch struct {
	Allowed bool     `json:"allowed"` // all are
	Results []answer `json:"results"`
}

// millis returns d in ms, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// receipt says when a take spent units, and how many it still counts.
type receipt struct {
	at, due sluice.Instant
	units   int64
}

// String returns the receipt's text. Its first part is the version of the form.
func (r receipt) String() string {
	b := append(make([]byte, 0, 48), '1')
	for _, n := range [...]int64{int64(r.at), int64(r.due), r.units} {
		b = strconv.AppendInt(append(b, '.'), n, 36)
	}
	return string(b)
}

// parseReceipt reads a receipt's text.
func parseReceipt(text string) (r receipt, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != "1" {
		return r, false
	}
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(parts[i+1], 36, 64); err != nil || n[i] < 0 {
			return r, false
		}
	}
	r = receipt{sluice.Instant(n[0]), sluice.Instant(n[1]), n[2]}
	return r, r.at > 0 && r.units > 0 && r.units <= sluice.MaxQuota
}

// problem is why a call is not answered.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`
	Errors faults `json:"errors,omitempty"` // all faults
	Retry  int64  `json:"retry_after_ms,omitempty"`

	why refusal
}

// refused returns a problem of a call.
func refused(status int, why refusal, format string, args ...any) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...), why: why}
}

// faulty returns the problem of a call that has faults.
func faulty(all faults) *problem {
	p := refused(http.StatusBadRequest, refusedFaults, "%s", all[0].Detail)
	p.Field, p.Errors = all[0].Field, all
	return p
}

// write writes a document.
func write(w http.ResponseWriter, status int, media string, document any) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(document) // an error means that the client is gone
}

func (p *problem) write(w http.ResponseWriter) {
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.Retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt((p.Retry+999)/1000, 10))
	}
	write(w, p.Status, "application/problem+json", p)
}
