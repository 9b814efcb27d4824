// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
)

// adapter is a [redisstore.Client] over rueidis, which sends a script once whatever its options
// are: it sends only commands again that it knows to be read-only.
type adapter struct{ client rueidis.Client }

func (a *adapter) Cluster() bool { return a.client.Mode() == rueidis.ClientModeCluster }

func (a *adapter) Run(ctx context.Context, scripts []*redisstore.Script, replies []redisstore.Reply) {
	if len(scripts) == 1 {
		replies[0] = replyOf(a.client.Do(ctx, a.command(scripts[0])))
		return
	}
	commands := make([]rueidis.Completed, len(scripts))
	for i, s := range scripts {
		commands[i] = a.command(s)
	}
	for i, result := range a.client.DoMulti(ctx, commands...) {
		replies[i] = replyOf(result)
	}
}

func (a *adapter) Info(ctx context.Context) (map[string]string, error) {
	servers := map[string]rueidis.Client{"": a.client}
	if a.Cluster() {
		servers = a.client.Nodes()
	}
	texts := make(map[string]string)
	var faults []error
	for addr, server := range servers {
		text, err := server.Do(ctx, server.B().Info().Build()).ToString()
		switch {
		case err == nil:
			texts[addr] = text
		case addr != "":
			faults = append(faults, fmt.Errorf("%s: %w", addr, err))
		default:
			faults = append(faults, err)
		}
	}
	return texts, errors.Join(faults...)
}

// command returns the command that runs a script.
func (a *adapter) command(s *redisstore.Script) rueidis.Completed {
	if s.Text != "" {
		return a.client.B().Eval().Script(s.Text).Numkeys(int64(len(s.Keys))).Key(s.Keys...).Arg(s.Args...).Build()
	}
	return a.client.B().Evalsha().Sha1(s.SHA).Numkeys(int64(len(s.Keys))).Key(s.Keys...).Arg(s.Args...).Build()
}

// replyOf returns the reply of a result.
func replyOf(result rueidis.RedisResult) redisstore.Reply {
	m, err := result.ToMessage()
	switch {
	case err == nil && m.IsArray():
		list, _ := appendList(make([]redisstore.Reply, 0, sizeOf(&m)), &m)
		return redisstore.Reply{List: list}
	case err == nil:
		return textOf(&m)
	case rueidis.IsRedisNil(err):
		return redisstore.Reply{}
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return redisstore.Reply{Err: err, Refused: true}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = &sluice.NotSentError{Err: err}
	}
	return redisstore.Reply{Err: err}
}

// textOf returns the reply of a message that is no list.
func textOf(m *rueidis.RedisMessage) redisstore.Reply {
	if m.IsInt64() {
		n, _ := m.ToInt64() // it is one
		return redisstore.Reply{Text: strconv.FormatInt(n, 10)}
	}
	text, err := m.ToString()
	if rueidis.IsRedisNil(err) {
		return redisstore.Reply{}
	}
	_, refused := rueidis.IsRedisErr(err)
	return redisstore.Reply{Text: text, Err: err, Refused: refused}
}

// sizeOf returns the number of all elements of a list and of the lists in it.
func sizeOf(m *rueidis.RedisMessage) int {
	elements, _ := m.ToArray() // it is one
	n := len(elements)
	for i := range elements {
		if elements[i].IsArray() {
			n += sizeOf(&elements[i])
		}
	}
	return n
}

// appendList appends a list to room, and the lists in it behind it, so that all need one
// allocation. It returns the list, and room with the lists.
func appendList(room []redisstore.Reply, m *rueidis.RedisMessage) (list, full []redisstore.Reply) {
	elements, _ := m.ToArray() // it is one
	from, to := len(room), len(room)+len(elements)
	room = room[:to]
	list = room[from:to:to]
	for i := range elements {
		if e := &elements[i]; e.IsArray() {
			list[i].List, room = appendList(room, e)
		} else {
			list[i] = textOf(e)
		}
	}
	return list, room
}
