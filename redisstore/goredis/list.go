// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"fmt"
	"strconv"

	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// list is a list of go-redis as a [transport.List].
type list []any

func (l list) Len() int { return len(l) }

func (l list) Text(i int) (string, error) {
	switch v := l[i].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", unexpected(v)
	}
}

func (l list) Int(i int) (int64, error) {
	switch v := l[i].(type) {
	case int64:
		return v, nil
	case string:
		return strconv.ParseInt(v, 10, 64)
	default:
		return 0, unexpected(v)
	}
}

func (l list) List(i int) (transport.List, error) {
	if v, ok := l[i].([]any); ok {
		return list(v), nil
	}
	return nil, unexpected(l[i])
}

func (l list) Reply(i int) transport.Reply {
	switch v := l[i].(type) {
	case nil:
		return transport.Reply{}
	case string:
		return transport.Reply{Text: v}
	case []any:
		return transport.Reply{List: list(v)}
	default:
		return transport.Reply{Err: unexpected(v)}
	}
}

// unexpected returns the error for an element of an unexpected type.
func unexpected(v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("goredis: a script has returned a list with an error: %w", err)
	}
	return fmt.Errorf("goredis: a script has returned a list with a %T", v)
}
