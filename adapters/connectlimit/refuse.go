// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package connectlimit

import (
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// refuse answers a call that is not passed on.
func refuse(errs *connect.ErrorWriter, w http.ResponseWriter, r *http.Request, q *httplimit.Request) {
	e := q.Event()
	if own := e.Status < http.StatusBadRequest && e.Verdict != evaluate.Denied; own || !isCall(errs, r) {
		q.Refuse(w)
		return
	}
	h := w.Header()
	q.Refuse(headerOnly{h})
	for _, of := range [...]string{"Content-Encoding", "Content-Length", "Content-Type", "Grpc-Status", "Grpc-Message", keyPushback} {
		h.Del(of) // belongs to the answer that is not sent
	}
	// An error means that the client has left and needs no answer.
	_ = errs.Write(w, r, failure(e))
}

// isCall reports whether a client can read an error of a protocol. A GET is a call if it has a
// message.
func isCall(errs *connect.ErrorWriter, r *http.Request) bool {
	return errs.IsSupported(r) && (r.Method != http.MethodGet || r.URL.Query().Has("message"))
}

// headerOnly is a writer that keeps only the header fields of an answer.
type headerOnly struct{ h http.Header }

func (o headerOnly) Header() http.Header       { return o.h }
func (headerOnly) WriteHeader(int)             {}
func (headerOnly) Write(p []byte) (int, error) { return len(p), nil }

// keyPushback is the trailer that gRPC retries obey.
const keyPushback = "Grpc-Retry-Pushback-Ms"

// failure returns the error of a call that is not passed on.
func failure(e httplimit.Event) *connect.Error {
	code, pushback := e.RPC()
	err := connect.NewError(connect.Code(code), errors.New(string(e.AppendDetail(nil))))
	if wait, ok := e.Retry(); ok {
		addDetail(err, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	if pushback != "" {
		err.Meta().Set(keyPushback, pushback)
	}
	if e.Verdict == evaluate.Denied {
		addDetail(err, quotaFailure(e))
	}
	return err
}

// quotaFailure names the limits that denied, as package grpclimit does. It holds nothing of the
// key.
func quotaFailure(e httplimit.Event) *errdetails.QuotaFailure {
	f := new(errdetails.QuotaFailure)
	for _, name := range e.Violated {
		f.Violations = append(f.Violations, &errdetails.QuotaFailure_Violation{Subject: name, QuotaId: name, Description: string(e.AppendDetail(nil))})
	}
	if e.Limit != nil { // the one that binds comes first
		f.Violations[0].QuotaMetric, f.Violations[0].QuotaValue = e.Limit.Unit.String(), e.Limit.Quota
	}
	return f
}

func addDetail(err *connect.Error, m proto.Message) {
	if detail, bad := connect.NewErrorDetail(m); bad == nil { // otherwise without details
		err.AddDetail(detail)
	}
}
