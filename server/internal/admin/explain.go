// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/server/internal/explain"
)

const mostExplain = 256 << 10 // bytes of a request to be explained

// explain answers POST /v1/explain.
func (a *API) explain(w http.ResponseWriter, r *http.Request) {
	var q explain.Request
	r.Body = http.MaxBytesReader(w, r.Body, mostExplain)
	if err := read(r, &q); err != nil {
		status := http.StatusBadRequest
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status = http.StatusRequestEntityTooLarge
		}
		fail(w, status, err)
		return
	}
	x := explain.Explainer{Policy: a.o.Policy(), Store: a.o.Explains, Overrides: a.o.Overrides.Active(), Now: a.o.Now, Admits: a.o.Admits, Claims: a.o.Claims}
	e, err := x.Explain(r.Context(), &q)
	if _, bad := errors.AsType[explain.RequestError](err); bad {
		fail(w, http.StatusBadRequest, err)
		return
	}
	if err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, http.StatusOK, e)
}
