// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fiberlimit

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
	utils "github.com/gofiber/utils/v2/strings"
	"github.com/valyala/fasthttp"
)

// request returns a copy of the request of c without its body: fasthttp reuses its buffers, and
// a later settlement may still read the request.
func request(c fiber.Ctx) (*http.Request, error) {
	target, err := target(c)
	if err != nil {
		return nil, err
	}
	ctx := c.RequestCtx()
	r := &http.Request{
		Method: string(ctx.Method()), URL: target, RequestURI: string(ctx.RequestURI()), Host: string(ctx.Host()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), ContentLength: length(ctx),
		RemoteAddr: ctx.RemoteAddr().String(), TLS: ctx.TLSConnectionState(),
	}
	for name, value := range ctx.Request.Header.All() {
		r.Header.Add(string(name), string(value))
	}
	// As in net/http these are not in the header.
	r.Header.Del("Host")
	r.Header.Del("Transfer-Encoding")
	return r.WithContext(c.Context()), nil
}

// target returns the target of c with the path that fiber routes.
func target(c fiber.Ctx) (*url.URL, error) {
	config := c.App().Config()
	path := strings.Clone(c.Path())
	if !config.CaseSensitive {
		path = utils.ToLower(path)
	}
	if !config.StrictRouting && len(path) > 1 {
		path = path[:1] + strings.TrimRight(path[1:], "/")
	}
	target := &url.URL{Path: path}
	if !config.UnescapePath {
		var err error
		if target, err = url.ParseRequestURI(path); err != nil {
			return nil, err
		}
	}
	target.RawQuery = string(c.RequestCtx().URI().QueryString())
	return target, nil
}

// length returns the size of a request's body, below 0 if it is known only after reading. The
// header does not state it for a chunked body, nor for that of a GET.
func length(ctx *fasthttp.RequestCtx) int64 {
	switch n := ctx.Request.Header.ContentLength(); {
	case n > 0:
		return int64(n)
	case ctx.Request.IsBodyStream():
		return -1
	default:
		return int64(len(ctx.Request.Body()))
	}
}

// hide removes header fields of the client's connection, which the request to pass on does not
// have.
func hide(c fiber.Ctx, came, goes *http.Request) {
	if goes == came {
		return
	}
	for name := range came.Header {
		if _, ok := goes.Header[name]; !ok {
			c.Request().Header.Del(name)
		}
	}
}
