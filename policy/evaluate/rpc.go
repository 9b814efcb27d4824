// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/policy"
)

// The google.rpc.Codes of RPCs that do not pass. gRPC and Connect use the same numbers.
const (
	rpcCanceled          = 1
	rpcInvalidArgument   = 3
	rpcDeadlineExceeded  = 4
	rpcPermissionDenied  = 7
	rpcResourceExhausted = 8
	rpcUnavailable       = 14
	rpcUnauthenticated   = 16
)

// rpcStatuses are the HTTP statuses of the codes, by the comments of google.rpc.Code.
var rpcStatuses = [...]int{200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401}

// RPCStatus returns the HTTP status of a google.rpc.Code, which the [When] of a rule compares;
// 500 for a number that is no code. Some codes share a status: INVALID_ARGUMENT,
// FAILED_PRECONDITION and OUT_OF_RANGE are 400, ALREADY_EXISTS and ABORTED 409, UNKNOWN,
// INTERNAL and DATA_LOSS 500.
func RPCStatus(code uint32) int {
	if code < uint32(len(rpcStatuses)) {
		return rpcStatuses[code]
	}
	return http.StatusInternalServerError
}

// RPC returns the google.rpc.Code of an RPC that does not pass; 0, which is OK, for one that
// passes. pushback is the value of grpc-retry-pushback-ms for its client: the time until a
// retry, in milliseconds rounded up; "-1" if no wait would help, "" if the time is not known.
func (e *Event) RPC() (code uint32, pushback string) {
	if wait, ok := e.Retry(); ok {
		up := (wait + time.Millisecond - 1) / time.Millisecond // never too early
		pushback = strconv.FormatInt(int64(up), 10)
	} else if e.Decision.TooLarge {
		pushback = "-1"
	}
	return e.code(), pushback
}

func (e *Event) code() uint32 {
	switch e.Verdict {
	case Denied:
		return rpcResourceExhausted
	case Refused:
		if _, ok := errors.AsType[*policy.TokenError](e.Err); ok {
			return rpcUnauthenticated
		}
		if errors.Is(e.Err, ErrNotAdmitted) {
			return rpcPermissionDenied
		}
		return rpcInvalidArgument
	case Abandoned:
		if errors.Is(e.Err, context.DeadlineExceeded) {
			return rpcDeadlineExceeded
		}
		return rpcCanceled
	case FailedClosed:
		return rpcUnavailable
	default:
		return 0
	}
}
