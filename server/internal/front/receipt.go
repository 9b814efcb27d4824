// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
)

// Receipt holds the time of a take, and the number of its units that still count. A client
// sends it back as text for a refund.
type Receipt struct {
	At, Due sluice.Instant
	Units   int64
}

// String returns the receipt's text. Its first part is the version of the form.
func (r Receipt) String() string {
	b := append(make([]byte, 0, 48), '1')
	for _, n := range [...]int64{int64(r.At), int64(r.Due), r.Units} {
		b = strconv.AppendInt(append(b, '.'), n, 36)
	}
	return string(b)
}

// ParseReceipt reads a receipt's text, and reports whether it is one.
func ParseReceipt(text string) (r Receipt, ok bool) {
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
	r = Receipt{sluice.Instant(n[0]), sluice.Instant(n[1]), n[2]}
	return r, r.At > 0 && r.Units > 0 && r.Units <= sluice.MaxQuota
}

// Refund returns a request, without its charges, that gives back units of the receipt, and a
// Receipt for the units that are left.
func (r Receipt) Refund(units int64) (req sluice.Request, left Receipt) {
	req = sluice.Request{Op: sluice.OpRefund, At: r.At}
	if units == r.Units {
		req.Due = r.Due
	}
	return req, Receipt{At: r.At, Units: r.Units - units}
}
