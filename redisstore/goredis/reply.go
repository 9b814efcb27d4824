// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"fmt"
	"strconv"

	"github.com/sluicegate/sluice/redisstore"
)

// replyOf returns the reply that go-redis gives as v.
func replyOf(v any) redisstore.Reply {
	switch v := v.(type) {
	case nil:
		return redisstore.Reply{}
	case string:
		return redisstore.Reply{Text: v}
	case int64:
		return redisstore.Reply{Text: strconv.FormatInt(v, 10)}
	case []any:
		list, _ := appendList(make([]redisstore.Reply, 0, sizeOf(v)), v)
		return redisstore.Reply{List: list}
	case error:
		return redisstore.Reply{Err: v, Refused: true}
	default:
		return redisstore.Reply{Err: fmt.Errorf("goredis: a script has returned a %T", v)}
	}
}

// sizeOf returns the number of all elements of a list and of the lists in it.
func sizeOf(v []any) int {
	n := len(v)
	for _, e := range v {
		if inner, ok := e.([]any); ok {
			n += sizeOf(inner)
		}
	}
	return n
}

// appendList appends a list to room, and the lists in it behind it, so that all need one
// allocation. It returns the list, and room with the lists.
func appendList(room []redisstore.Reply, v []any) (list, full []redisstore.Reply) {
	from, to := len(room), len(room)+len(v)
	room = room[:to]
	list = room[from:to:to]
	for i, e := range v {
		if inner, ok := e.([]any); ok {
			list[i].List, room = appendList(room, inner)
		} else {
			list[i] = replyOf(e)
		}
	}
	return list, room
}
