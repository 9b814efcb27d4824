// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/wire"
)

// field is a header field that the response has, whatever sets another.
type field struct {
	name   string
	values []string
}

// Keep has the response go with fields as they are in its header now, in the place of
// those that a handler further in sets under their names, in any case. A handler
// further in that keeps one of these names, too, has its own.
func (x *Exchange) Keep(names []string) {
	h := x.Header()
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return h[name] == nil })
	Release(x, names)
	for _, name := range names {
		x.kept = append(x.kept, field{name, h[name]})
	}
}

// Release has handlers around w keep no fields of these names.
func Release(w http.ResponseWriter, names []string) {
	for x := range around(w) {
		x.kept = slices.DeleteFunc(x.kept, func(f field) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, f.name) })
		})
	}
}

// keep sets what is kept, before the header is sent.
func (x *Exchange) keep() {
	for _, f := range x.kept {
		wire.SetField(x.below.Header(), f.name, f.values)
	}
}
