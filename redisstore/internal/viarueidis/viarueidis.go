// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package viarueidis is the transport over a rueidis client.
package viarueidis

import (
	"context"
	"errors"
	"net"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// Transport is a [transport.Transport] over a rueidis client. It sends scripts once,
// whatever the options of the client are.
type Transport struct{ client rueidis.Client }

// New returns the transport over a client.
func New(client rueidis.Client) *Transport { return &Transport{client} }

// Cluster implements [transport.Transport].
func (v *Transport) Cluster() bool { return v.client.Mode() == rueidis.ClientModeCluster }

// Run implements [transport.Transport].
func (v *Transport) Run(ctx context.Context, s *transport.Script) transport.Reply {
	return ReplyOf(v.client.Do(ctx, v.Command(s)))
}

// RunAll implements [transport.Transport].
func (v *Transport) RunAll(ctx context.Context, list []*transport.Script, replies []transport.Reply) {
	wire := make([]rueidis.Completed, len(list))
	for i, s := range list {
		wire[i] = v.Command(s)
	}
	for i, res := range v.client.DoMulti(ctx, wire...) {
		replies[i] = ReplyOf(res)
	}
}

// Info implements [transport.Transport].
func (v *Transport) Info(ctx context.Context) map[string]transport.Reply {
	if !v.Cluster() {
		return map[string]transport.Reply{"": ReplyOf(v.client.Do(ctx, v.client.B().Info().Build()))}
	}
	replies := make(map[string]transport.Reply)
	for addr, node := range v.client.Nodes() {
		replies[addr] = ReplyOf(node.Do(ctx, node.B().Info().Build()))
	}
	return replies
}

// Command returns the command that runs a script.
func (v *Transport) Command(s *transport.Script) rueidis.Completed {
	if s.Text != "" {
		return v.client.B().Eval().Script(s.Text).Numkeys(int64(len(s.Keys))).Key(s.Keys...).Arg(s.Args...).Build()
	}
	return v.client.B().Evalsha().Sha1(s.SHA).Numkeys(int64(len(s.Keys))).Key(s.Keys...).Arg(s.Args...).Build()
}

// ReplyOf returns the reply of a result.
func ReplyOf(res rueidis.RedisResult) transport.Reply {
	m, err := res.ToMessage()
	if err == nil && m.IsArray() {
		list := m // a copy, so that m escapes in this case only
		return transport.Reply{List: (*messages)(&list)}
	}
	return replyOf(&m, err)
}

// replyOf returns the reply of a message that is not a list, or of err.
func replyOf(m *rueidis.RedisMessage, err error) transport.Reply {
	switch {
	case err == nil:
		text, err := m.ToString()
		return transport.Reply{Text: text, Err: err}
	case rueidis.IsRedisNil(err):
		return transport.Reply{}
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return transport.Reply{Err: err, Refused: true}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = &sluice.NotSentError{Err: err}
	}
	return transport.Reply{Err: err}
}

// messages is a message that holds a list.
type messages rueidis.RedisMessage

func (l *messages) all() []rueidis.RedisMessage {
	list, _ := (*rueidis.RedisMessage)(l).ToArray() // it is one
	return list
}

func (l *messages) Len() int { return len(l.all()) }

func (l *messages) Text(i int) (string, error) {
	m := &l.all()[i]
	if m.IsNil() {
		return "", nil
	}
	return m.ToString()
}

func (l *messages) Int(i int) (int64, error) { return l.all()[i].AsInt64() }

func (l *messages) List(i int) (transport.List, error) {
	m := &l.all()[i]
	_, err := m.ToArray()
	return (*messages)(m), err
}

func (l *messages) Reply(i int) transport.Reply {
	m := &l.all()[i]
	if m.IsArray() {
		return transport.Reply{List: (*messages)(m)}
	}
	return replyOf(m, m.Error())
}
