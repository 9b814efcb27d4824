// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
)

// field is a header field that the response keeps against changes by inner handlers.
type field struct {
	name   string
	values []string
}

// Keep preserves the current values of header fields, whatever inner handlers set under these
// names in any case. An inner handler that keeps a name, too, sets its own value.
func (x *Exchange) Keep(names []string) {
	h := x.Header()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return h[name] == nil })
	Release(x, names)
	for _, name := range names {
		x.kept = append(x.kept, field{name, h[name]})
	}
}

// Release ends the keeping of these names by the handlers around w.
func Release(w http.ResponseWriter, names []string) {
	for x := range around(w) {
		x.kept = slices.DeleteFunc(x.kept, func(f field) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, f.name) })
		})
	}
}

// keep sets the kept fields before the header is sent.
func (x *Exchange) keep() {
	for _, f := range x.kept {
		wire.SetField(x.below.Header(), f.name, f.values)
	}
}
