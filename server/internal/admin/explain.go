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
func (a *API) explain(w http.ResponseWriter, r *http.Request) (any, error) {
	var q explain.Request
	r.Body = http.MaxBytesReader(w, r.Body, mostExplain)
	if err := read(r, &q); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			err = failed(http.StatusRequestEntityTooLarge, err)
		}
		return nil, err
	}
	x := explain.Explainer{Policy: a.o.Policy(), Store: a.o.Explains, Overrides: a.o.Overrides.Active(), Now: a.o.Now, Admits: a.o.Admits, Claims: a.o.Claims}
	e, err := x.Explain(r.Context(), &q)
	if _, bad := errors.AsType[explain.RequestError](err); err != nil && !bad {
		err = failed(http.StatusServiceUnavailable, err)
	}
	return e, err
}
