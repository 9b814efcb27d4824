// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"
)

// SetField sets a field with the case of its name, and replaces fields whose names differ in
// case only.
func SetField(h http.Header, name string, values []string) {
	for other := range h {
		if strings.EqualFold(other, name) {
			delete(h, other)
		}
	}
	h[name] = values
}
