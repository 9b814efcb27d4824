// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ginlimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/sluicegate/sluice/adapters/ginlimit"
	"github.com/sluicegate/sluice/adapters/internal/limittest"
	"github.com/sluicegate/sluice/httplimit"
)

var errPassword = errors.New("wrong password")

// ways are the ways in which handlers fail.
var ways = map[string]gin.HandlerFunc{
	"status":         func(c *gin.Context) { c.Status(http.StatusUnauthorized) },
	"body":           func(c *gin.Context) { c.JSON(http.StatusUnauthorized, gin.H{"error": "wrong password"}) },
	"abort":          func(c *gin.Context) { c.AbortWithStatus(http.StatusUnauthorized) },
	"abort-error":    func(c *gin.Context) { _ = c.AbortWithError(http.StatusUnauthorized, errPassword) },
	"recorded-error": func(c *gin.Context) { _ = c.Error(errPassword) },
	"writer":         func(c *gin.Context) { http.Error(c.Writer, "wrong password", http.StatusUnauthorized) },
	"wrapped": gin.WrapF(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}),
	"panic":            func(*gin.Context) { panic(errPassword) },
	"panic-recovered":  func(*gin.Context) { panic(errPassword) },
	"panic-set-status": func(c *gin.Context) { c.Status(http.StatusOK); panic(errPassword) },
}

func status(way string) int {
	if len(way) > 4 && way[:5] == "panic" {
		return http.StatusInternalServerError
	}
	return http.StatusUnauthorized
}

// start serves an application with a Recovery on both sides of the limits. In front of them,
// the application answers errors that handlers have recorded.
func start(t *testing.T, mw *httplimit.Middleware, s *limittest.Signals) string {
	r := gin.New() // it trusts all proxies
	r.Use(gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			c.JSON(http.StatusUnauthorized, gin.H{"error": c.Errors.String()})
		}
	}, ginlimit.New(mw))
	for way, h := range ways {
		if way == "panic-recovered" {
			r.POST("/login/"+way, gin.RecoveryWithWriter(io.Discard), h)
			continue
		}
		r.POST("/login/"+way, h)
	}
	answer := func(c *gin.Context) {
		_, _ = c.Writer.Write(limittest.Chunk)               // the client is there
		_, _ = c.Writer.WriteString(string(limittest.Chunk)) // the client is there
	}
	r.GET("/bytes", answer)
	r.HEAD("/bytes", answer)
	r.GET("/stream", func(c *gin.Context) {
		sent := false
		c.Stream(func(w io.Writer) bool {
			if sent {
				<-s.Release
			}
			_, _ = w.Write(limittest.Chunk) // the client is there
			sent = !sent
			return sent
		})
	})
	r.POST("/upload", func(c *gin.Context) { _, _ = c.GetRawData() }) // the client is there
	r.GET("/wait", func(c *gin.Context) {
		s.Started <- struct{}{}
		<-s.Release
		c.Status(http.StatusUnauthorized)
	})
	r.GET("/gone", func(c *gin.Context) {
		s.Started <- struct{}{}
		<-c.Request.Context().Done()
	})
	r.GET("/gone/failed", func(c *gin.Context) {
		s.Started <- struct{}{}
		<-c.Request.Context().Done()
		_ = c.AbortWithError(http.StatusInternalServerError, c.Request.Context().Err())
	})
	r.GET("/panic", ways["panic"])
	r.GET("/nothing", func(*gin.Context) {})
	r.GET("/header", func(c *gin.Context) { c.String(http.StatusOK, c.GetHeader("X-User")) })
	r.GET("/hijack", func(c *gin.Context) {
		conn, rw, err := c.Writer.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close() //nolint:errcheck // the client has closed it
		if n := rw.Reader.Buffered(); n > 0 {
			t.Errorf("%d bytes are only in the reader", n)
		}
		limittest.Echo(conn)
	})
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return server.URL
}

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	m.Run()
}

func TestAdapter(t *testing.T) {
	statuses := make(map[string]int)
	for way := range ways {
		statuses[way] = status(way)
	}
	limittest.All(t, start, statuses, true, "/gone", "/gone/failed")
}
