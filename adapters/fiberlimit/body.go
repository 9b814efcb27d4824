// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fiberlimit

import (
	"io"
	"reflect"
	"unsafe"

	"github.com/valyala/fasthttp"
)

// fasthttp can replace the stream of a body only by closing it, and does not report how much
// of it was sent. So the streams are replaced in fasthttp's own fields.
var (
	ofRequest, requestKnown   = place[fasthttp.Request]()
	ofResponse, responseKnown = place[fasthttp.Response]()
)

// place returns the offset of the stream of T's body, and false if the field has changed.
func place[T any]() (uintptr, bool) {
	field, ok := reflect.TypeFor[T]().FieldByName("bodyStream")
	return field.Offset, ok && field.Type == reflect.TypeFor[io.Reader]()
}

func mustKnowStreams() {
	if !requestKnown || !responseKnown {
		panic("fiberlimit: this version of fasthttp keeps the streams of bodies elsewhere, so that they cannot be counted; use the version that fiberlimit requires") //nolint:forbidigo // a mistake of the build, and there is no error to return
	}
}

// requestStream returns a pointer to the stream of r's body, which is nil without one.
func requestStream(r *fasthttp.Request) *io.Reader {
	return (*io.Reader)(unsafe.Add(unsafe.Pointer(r), ofRequest)) //nolint:gosec // see above
}

// responseStream returns a pointer to the stream of r's body, which is nil without one.
func responseStream(r *fasthttp.Response) *io.Reader {
	return (*io.Reader)(unsafe.Add(unsafe.Pointer(r), ofResponse)) //nolint:gosec // see above
}
