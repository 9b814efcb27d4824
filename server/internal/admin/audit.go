// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/server/internal/fleet"
)

const defaultEntries = 100

// listAudit answers GET /v1/audit.
func (a *API) listAudit(w http.ResponseWriter, r *http.Request) {
	n := defaultEntries
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > fleet.MostEntries {
			fail(w, http.StatusBadRequest, fmt.Errorf("n must be 1 to %d", fleet.MostEntries))
			return
		}
	}
	answer(w, http.StatusOK, a.o.Audit.List(r.Context(), n))
}
