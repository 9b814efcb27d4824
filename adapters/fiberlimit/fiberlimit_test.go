// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fiberlimit_test

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	recovery "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/sluicegate/sluice/adapters/fiberlimit"
	"github.com/sluicegate/sluice/adapters/internal/limittest"
	"github.com/sluicegate/sluice/httplimit"
)

var (
	errPassword = errors.New("wrong password")
	errHandler  = errors.New("cannot be answered")
)

// ways are the ways in which handlers fail.
var ways = map[string]fiber.Handler{
	"status":        func(c fiber.Ctx) error { return c.SendStatus(http.StatusUnauthorized) },
	"set-status":    func(c fiber.Ctx) error { c.Status(http.StatusUnauthorized); return nil },
	"body":          func(c fiber.Ctx) error { return c.Status(http.StatusUnauthorized).SendString("wrong password") },
	"error":         func(fiber.Ctx) error { return fiber.ErrUnauthorized },
	"new-error":     func(fiber.Ctx) error { return fiber.NewError(http.StatusUnauthorized, "wrong password") },
	"error-of-ours": func(fiber.Ctx) error { return errPassword }, // which the error handler knows
	"unknown-error": func(fiber.Ctx) error { return errors.New("no database") },
	"no-answer":     func(fiber.Ctx) error { return errHandler }, // for which the error handler fails
	"net/http": adaptor.HTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong password", http.StatusUnauthorized)
	}),
	"stream": func(c fiber.Ctx) error {
		return c.Status(http.StatusUnauthorized).SendStreamWriter(func(w *bufio.Writer) {
			_, _ = w.WriteString("wrong password") // the client is there
		})
	},
	"timeout": timeout.New(func(c fiber.Ctx) error {
		<-c.Context().Done()
		for !c.IsAbandoned() { // a handler that returns now may still be in time
			time.Sleep(time.Millisecond)
		}
		return errPassword
	}, timeout.Config{Timeout: time.Millisecond}),
	"panic":           func(fiber.Ctx) error { panic(errors.New("bug")) },
	"panic-recovered": func(fiber.Ctx) error { panic(errors.New("bug")) },
}

func status(way string) int {
	switch way {
	case "unknown-error", "no-answer", "panic", "panic-recovered":
		return http.StatusInternalServerError
	case "timeout":
		return http.StatusRequestTimeout
	}
	return http.StatusUnauthorized
}

// answerError is an error handler for the application's own error.
func answerError(c fiber.Ctx, err error) error {
	if errors.Is(err, errPassword) {
		err = fiber.ErrUnauthorized
	}
	if errors.Is(err, errHandler) {
		return err
	}
	return fiber.DefaultErrorHandler(c, err)
}

// starting returns a function that starts an application with a recover on both sides of the
// limits, and with further routes.
func starting(config fiber.Config, more func(*fiber.App, *limittest.Signals)) limittest.Start {
	return func(t *testing.T, mw *httplimit.Middleware, s *limittest.Signals) string {
		config.ErrorHandler = answerError
		config.TrustProxy, config.ProxyHeader = true, fiber.HeaderXForwardedFor
		config.TrustProxyConfig = fiber.TrustProxyConfig{Loopback: true} // so c.IP() is what a client sends
		app := fiber.New(config)
		app.Use(recovery.New(), fiberlimit.New(mw))
		routes(app, s)
		if more != nil {
			more(app, s)
		}
		return listen(t, app)
	}
}

// listen serves an application until the test is over.
func listen(t *testing.T, app *fiber.App) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := errors.Join(app.ShutdownWithTimeout(time.Minute), <-served); err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func routes(app *fiber.App, s *limittest.Signals) {
	for way, h := range ways {
		if way == "panic-recovered" {
			app.Post("/login/"+way, recovery.New(), h)
			continue
		}
		app.Post("/login/"+way, h)
	}
	app.Get("/bytes", func(c fiber.Ctx) error { return c.Send(limittest.Whole) })
	app.Get("/stream", func(c fiber.Ctx) error {
		return c.SendStreamWriter(func(w *bufio.Writer) {
			_, _ = w.Write(limittest.Chunk) // the client is there
			_ = w.Flush()
			<-s.Release
			_, _ = w.Write(limittest.Chunk)
		})
	})
	app.Post("/upload", func(c fiber.Ctx) error {
		c.Body()
		return nil
	})
	app.Get("/wait", func(fiber.Ctx) error {
		s.Started <- struct{}{}
		<-s.Release
		return errPassword
	})
	app.Get("/gone", func(fiber.Ctx) error {
		s.Started <- struct{}{}
		return errPassword
	})
	app.Get("/panic", ways["panic"])
	app.Get("/nothing", func(fiber.Ctx) error { return nil })
	app.Get("/header", func(c fiber.Ctx) error { return c.SendString(c.Get("X-User")) })
	app.Get("/hijack", func(c fiber.Ctx) error {
		c.RequestCtx().HijackSetNoResponse(true)
		c.RequestCtx().Hijack(func(conn net.Conn) { limittest.Echo(conn) })
		return nil
	})
}

var start = starting(fiber.Config{}, nil)

func TestAdapter(t *testing.T) {
	statuses := make(map[string]int)
	for way := range ways {
		statuses[way] = status(way)
	}
	limittest.All(t, start, statuses, false, "/gone")
}

func TestStreamedBytes(t *testing.T) {
	limittest.Bytes(t, starting(fiber.Config{StreamRequestBody: true}, nil))
}
