// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package goredis has a store of package redisstore use an existing go-redis
// client.
package goredis
