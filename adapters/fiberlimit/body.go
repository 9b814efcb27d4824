// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fiberlimit

import (
	"io"
	"reflect"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// fasthttp can put another stream in the place of a body's only by closing the one
// that is there, and does not say how much of it was sent. So the streams are
// replaced where fasthttp keeps them.
var (
	ofRequest, requestKnown   = place[fasthttp.Request]()
	ofResponse, responseKnown = place[fasthttp.Response]()
)

// place returns where T keeps the stream of its body, and false if it is not
// where it is known to be.
func place[T any]() (uintptr, bool) {
	field, ok := reflect.TypeFor[T]().FieldByName("bodyStream")
	return field.Offset, ok && field.Type == reflect.TypeFor[io.Reader]()
}

func mustKnowStreams() {
	if !requestKnown || !responseKnown {
		panic("fiberlimit: this version of fasthttp keeps the streams of bodies elsewhere, so that they cannot be counted; use the version that fiberlimit requires") //nolint:forbidigo // a mistake of the build, and there is no error to return
	}
}

// requestStream returns the place of the stream of r's body, which is nil if there
// is none.
func requestStream(r *fasthttp.Request) *io.Reader {
	return (*io.Reader)(unsafe.Add(unsafe.Pointer(r), ofRequest)) //nolint:gosec // see above
}

// responseStream returns the place of the stream of r's body, which is nil if there
// is none.
func responseStream(r *fasthttp.Response) *io.Reader {
	return (*io.Reader)(unsafe.Add(unsafe.Pointer(r), ofResponse)) //nolint:gosec // see above
}
