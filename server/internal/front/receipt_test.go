// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/server/internal/front"
)

// FuzzReceipt: a text is a receipt only if it is what the receipt prints.
func FuzzReceipt(f *testing.F) {
	for _, text := range []string{"", "1.1.1.1", "1.hokq.hokq.a", "1.-1.0.1", "2.1.1.1", "1.1.1.1.1", "1.zzzzzzzzzzzzz.0.1", "1.+1.0.1", "1.1.0.0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := front.ParseReceipt(text)
		if !ok {
			return
		}
		if again, ok := front.ParseReceipt(r.String()); !ok || again != r || r.Units < 1 || r.Units > sluice.MaxQuota {
			t.Errorf("%q is %+v, and that %+v", text, r, again)
		}
	})
}
