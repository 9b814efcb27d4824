// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

const defaultEntries = 100

// listAudit answers GET /v1/audit.
func (a *API) listAudit(_ http.ResponseWriter, r *http.Request) (any, error) {
	n := defaultEntries
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > fleet.MostEntries {
			return nil, fmt.Errorf("n must be 1 to %d", fleet.MostEntries)
		}
	}
	return a.o.Audit.List(r.Context(), n), nil
}

// Bounds of the texts of a change, in bytes. They are kept for long, and sent to all nodes.
const (
	mostReason = 1000
	mostAuthor = 100
)

// Change describes a change: its author and its reason.
type Change struct {
	Reason string `json:"reason,omitempty"`
	Author string `json:"author"`
}

// check returns an error if a text of the change is not valid.
func (c *Change) check() error {
	var faults []error
	if c.Author == "" {
		faults = append(faults, errors.New("author is missing: the audit log names one; give --author"))
	}
	for _, text := range []struct {
		name, text string
		most       int
	}{{"author", c.Author, mostAuthor}, {"reason", c.Reason, mostReason}} {
		switch {
		case len(text.text) > text.most:
			faults = append(faults, fmt.Errorf("%s has %d bytes; at most %d are kept: write a shorter one", text.name, len(text.text), text.most))
		case strings.ContainsFunc(text.text, unicode.IsControl):
			faults = append(faults, fmt.Errorf("%s has a control character, such as a line break; write it in one line", text.name))
		}
	}
	return errors.Join(faults...)
}
