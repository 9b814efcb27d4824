// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"net"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
)

// viaRueidis is the Transport of a rueidis client, which sends scripts once
// whatever its options are.
type viaRueidis struct{ client rueidis.Client }

func (v *viaRueidis) Cluster() bool { return v.client.Mode() == rueidis.ClientModeCluster }

func (v *viaRueidis) Run(ctx context.Context, s *Script) Reply {
	return replyOf(v.client.Do(ctx, v.command(s)))
}

func (v *viaRueidis) RunAll(ctx context.Context, list []*Script, replies []Reply) {
	wire := make([]rueidis.Completed, len(list))
	for i, s := range list {
		wire[i] = v.command(s)
	}
	for i, res := range v.client.DoMulti(ctx, wire...) {
		replies[i] = replyOf(res)
	}
}

func (v *viaRueidis) Info(ctx context.Context) map[string]Reply {
	if !v.Cluster() {
		return map[string]Reply{"": replyOf(v.client.Do(ctx, v.client.B().Info().Build()))}
	}
	replies := make(map[string]Reply)
	for addr, node := range v.client.Nodes() {
		replies[addr] = replyOf(node.Do(ctx, node.B().Info().Build()))
	}
	return replies
}

func (v *viaRueidis) command(s *Script) rueidis.Completed {
	if s.Text != "" {
		return v.client.B().Eval().Script(s.Text).Numkeys(int64(len(s.Keys))).Key(s.Keys...).Arg(s.Args...).Build()
	}
	return v.client.B().Evalsha().Sha1(s.SHA).Numkeys(int64(len(s.Keys))).Key(s.Keys...).Arg(s.Args...).Build()
}

func replyOf(res rueidis.RedisResult) Reply {
	m, err := res.ToMessage()
	switch {
	case err == nil && m.IsArray():
		list := m // only here in memory of its own
		return Reply{List: (*messages)(&list)}
	case err == nil:
		text, err := m.ToString()
		return Reply{Text: text, Err: err}
	case rueidis.IsRedisNil(err):
		return Reply{}
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return Reply{Err: err, Refused: true}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = &sluice.NotSentError{Err: err}
	}
	return Reply{Err: err}
}

// messages is a message that is a list.
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

func (l *messages) List(i int) (List, error) {
	m := &l.all()[i]
	_, err := m.ToArray()
	return (*messages)(m), err
}
