// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxBody is the most bytes of a request in JSON.
const maxBody = 256 << 10

// ServeHTTP answers requests in JSON at /json: 200 if the request may pass, 429 if not, 400 if it
// is not valid, 403 if the peer is not admitted, and 503 if the store fails.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthcheck":
		_, _ = io.WriteString(w, "OK") // an error means that the client has left
		return
	case "/json":
	default:
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := &pb.RateLimitRequest{}
	if err := protojson.Unmarshal(body, q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := l.current.Load().decide(r.Context(), q, r.RemoteAddr)
	if err != nil {
		said := status.Convert(err)
		code := http.StatusServiceUnavailable
		if said.Code() == codes.InvalidArgument {
			code = http.StatusBadRequest
		} else if said.Code() == codes.PermissionDenied {
			code = http.StatusForbidden
		}
		http.Error(w, said.Message(), code)
		return
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	if answer.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // an error means that the client has left
}
