// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluicegate/sluice/adapters/ginlimit"
	"github.com/sluicegate/sluice/httplimit"
)

func serveGin(mw *httplimit.Middleware, ln net.Listener) error {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery(), ginlimit.New(mw))
	r.POST("/login", func(c *gin.Context) {
		if c.PostForm("password") != "right" {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.String(http.StatusOK, "welcome\n")
	})
	return r.RunListener(ln)
}
