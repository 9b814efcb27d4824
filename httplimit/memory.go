// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import "strings"

// memory allocates the values of header fields for several responses at once. The values
// belong to the responses, which may keep them. The zero memory is ready to use.
type memory struct {
	alone  bool     // for one response only: allocates exactly
	values []string // unused
	text   strings.Builder
	last   texts
}

const (
	valuesAtOnce = 62   // for about ten responses: as much as fits into 1 KiB
	textAtOnce   = 1024 // bytes, for about forty
)

// strings returns n empty strings.
func (m *memory) strings(n int) []string {
	if m.alone {
		return make([]string, n)
	}
	if len(m.values) < n {
		m.values = make([]string, max(n, valuesAtOnce))
	}
	some := m.values[:n:n]
	m.values = m.values[n:]
	return some
}

// string returns b as a string.
func (m *memory) string(b []byte) string {
	if m.alone {
		return string(b)
	}
	at := m.text.Len()
	if m.text.Cap()-at < len(b) {
		m.text.Reset()
		m.text.Grow(max(len(b), textAtOnce))
		at = 0
	}
	m.text.Write(b)
	return m.text.String()[at:]
}
