// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// sampleApp answers where there is no upstream. It greets its users, to show a limit at work.
type sampleApp struct {
	process string // tells processes behind one name apart
}

type sampleAnswer struct {
	Status  string `json:"status"`
	User    string `json:"userId,omitempty"`
	Message string `json:"message"`
	Process string `json:"processName"`
}

func newSampleApp() *sampleApp {
	return &sampleApp{process: fmt.Sprintf("%s-%d", filepath.Base(os.Args[0]), os.Getpid())}
}

func (a *sampleApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := r.URL.Query().Get("userId")
	switch {
	case r.URL.Path != "/":
		a.answer(w, http.StatusNotFound, "error", user, "there is nothing here; try /?userId=u1")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		a.answer(w, http.StatusMethodNotAllowed, "error", user, "only GET is understood here")
	case user == "":
		a.answer(w, http.StatusBadRequest, "error", "", "query parameter userId is missing; try /?userId=u1")
	default:
		a.answer(w, http.StatusOK, "ok", user, "hello "+user)
	}
}

func (a *sampleApp) answer(w http.ResponseWriter, code int, status, user, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// An error means that the client is gone.
	_ = json.NewEncoder(w).Encode(sampleAnswer{status, user, message, a.process})
}
