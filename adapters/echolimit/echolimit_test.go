// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package echolimit_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/sluicegate/sluice/adapters/echolimit"
	"github.com/sluicegate/sluice/adapters/internal/limittest"
	"github.com/sluicegate/sluice/httplimit"
)

var errPassword = errors.New("wrong password")

// ways are the ways in which handlers fail.
var ways = map[string]echo.HandlerFunc{
	"status":         func(c *echo.Context) error { return c.NoContent(http.StatusUnauthorized) },
	"body":           func(c *echo.Context) error { return c.String(http.StatusUnauthorized, "wrong password") },
	"error":          func(*echo.Context) error { return echo.ErrUnauthorized },
	"http-error":     func(*echo.Context) error { return echo.NewHTTPError(http.StatusUnauthorized, "wrong password") },
	"wrapped-error":  func(*echo.Context) error { return errors.Join(errPassword, echo.ErrUnauthorized) },
	"error-of-ours":  func(*echo.Context) error { return errPassword }, // which the error handler knows
	"unknown-error":  func(*echo.Context) error { return errors.New("no database") },
	"handler-called": func(c *echo.Context) error { c.Echo().HTTPErrorHandler(c, errPassword); return nil },
	"net/http": echo.WrapHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong password", http.StatusUnauthorized)
	})),
	"unwrapped": func(c *echo.Context) error {
		resp, err := echo.UnwrapResponse(c.Response())
		if err != nil {
			return err
		}
		resp.WriteHeader(http.StatusUnauthorized)
		return nil
	},
	"panic":           func(*echo.Context) error { panic(errors.New("bug")) },
	"panic-recovered": func(*echo.Context) error { panic(errors.New("bug")) },
}

func status(way string) int {
	switch way {
	case "unknown-error", "panic", "panic-recovered":
		return http.StatusInternalServerError
	}
	return http.StatusUnauthorized
}

// start serves an application with a Recover on both sides of the limits, and an error handler
// for its own error.
func start(t *testing.T, mw *httplimit.Middleware, s *limittest.Signals) string {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.IPExtractor = echo.LegacyIPExtractor() // it trusts every peer
	byDefault := e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if errors.Is(err, errPassword) {
			err = echo.ErrUnauthorized
		}
		byDefault(c, err)
	}
	e.Use(middleware.Recover(), echolimit.New(mw))
	for way, h := range ways {
		if way == "panic-recovered" {
			e.POST("/login/"+way, h, middleware.Recover())
			continue
		}
		e.POST("/login/"+way, h)
	}
	answer := func(c *echo.Context) error { return c.String(http.StatusOK, string(limittest.Whole)) }
	e.GET("/bytes", answer)
	e.HEAD("/bytes", answer)
	e.GET("/stream", func(c *echo.Context) error {
		if _, err := c.Response().Write(limittest.Chunk); err != nil {
			return err
		}
		if err := http.NewResponseController(c.Response()).Flush(); err != nil {
			return err
		}
		<-s.Release
		_, err := c.Response().Write(limittest.Chunk)
		return err
	})
	e.POST("/upload", func(c *echo.Context) error {
		_, err := io.ReadAll(c.Request().Body)
		return err
	})
	e.GET("/wait", func(*echo.Context) error {
		s.Started <- struct{}{}
		<-s.Release
		return errPassword
	})
	e.GET("/gone", func(c *echo.Context) error {
		s.Started <- struct{}{}
		<-c.Request().Context().Done()
		return echo.ErrForbidden // an error that may or may not come from the end of the context
	})
	e.GET("/gone/failed", func(c *echo.Context) error {
		s.Started <- struct{}{}
		<-c.Request().Context().Done()
		return c.NoContent(http.StatusInternalServerError)
	})
	e.GET("/panic", ways["panic"])
	e.GET("/nothing", func(*echo.Context) error { return nil })
	e.GET("/header", func(c *echo.Context) error { return c.String(http.StatusOK, c.Request().Header.Get("X-User")) })
	e.GET("/hijack", func(c *echo.Context) error {
		conn, _, err := http.NewResponseController(c.Response()).Hijack()
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // the client has closed it
		limittest.Echo(conn)
		return nil
	})
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAdapter(t *testing.T) {
	statuses := make(map[string]int)
	for way := range ways {
		statuses[way] = status(way)
	}
	limittest.All(t, start, statuses, true, "/gone", "/gone/failed")
}
