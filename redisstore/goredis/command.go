// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
)

// command is a script under way. By default go-redis sends a command again when its
// connection breaks, and a whole pipeline when its first command is refused. With NoRetry it
// does so only after answers which mean that nothing has run, such as MOVED and ASK.
type command struct {
	*redis.Cmd
	program *program
}

// NoRetry returns true: the command must not run twice.
func (*command) NoRetry() bool { return true }

// firstKey is the position of the first key in EVAL and EVALSHA.
const firstKey = 3

func newCommand(ctx context.Context, s *redisstore.Script) *command {
	p, name := &program{text: s.SHA}, "evalsha"
	if s.Text != "" {
		p.text, name = s.Text, "eval"
	}
	args := make([]any, 0, firstKey+len(s.Keys)+len(s.Args))
	args = append(args, name, p, strconv.Itoa(len(s.Keys)))
	for _, key := range s.Keys {
		args = append(args, key)
	}
	for _, arg := range s.Args {
		args = append(args, arg)
	}
	c := &command{redis.NewCmd(ctx, args...), p}
	// With these go-redis asks no server for the command's positions of keys.
	c.SetFirstKeyPos(firstKey)
	c.SetStepCount(1)
	return c
}

// reply returns the outcome of a command that has ended.
func (c *command) reply(ctx context.Context) redisstore.Reply {
	// A value is the answer even if there is an error: if a connection breaks later in a
	// pipeline, go-redis sets the error of all commands.
	switch v := c.Val().(type) {
	case string, int64, []any:
		return replyOf(v)
	}
	err := c.Err()
	if errors.Is(err, os.ErrDeadlineExceeded) && over(ctx) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	switch {
	case !c.program.left():
		if err == nil {
			err = errSwallowed
		}
		return redisstore.Reply{Err: &sluice.NotSentError{Err: err}}
	case err == nil:
		return redisstore.Reply{Err: fmt.Errorf("goredis: a script has returned a %T", c.Val())}
	case errors.Is(err, redis.Nil):
		return redisstore.Reply{}
	}
	if refused, ok := errors.AsType[redis.Error](err); ok {
		return redisstore.Reply{Err: refused, Refused: true}
	}
	return redisstore.Reply{Err: err}
}

// over reports whether the deadline of ctx has passed. A connection's deadline may end
// before ctx.Err is set.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

// withdraw ends a command whose time is over. If it was not written, it never will be.
func (c *command) withdraw(err error) redisstore.Reply {
	if !c.program.withdraw() {
		err = &sluice.NotSentError{Err: err}
	}
	return redisstore.Reply{Err: err}
}

var (
	errSwallowed = errors.New("goredis: a hook of the client has not sent the script")
	errWithdrawn = errors.New("goredis: the script's time is over")
)

// program is the script's name or text in a command. go-redis calls MarshalBinary when it
// writes the command, which records that bytes may have been sent.
type program struct {
	text  string
	state atomic.Int32
}

const (
	written   = 1 << iota // to a connection, at least once
	withdrawn             // not to be written from now on
)

// MarshalBinary returns the bytes to write.
func (p *program) MarshalBinary() ([]byte, error) {
	if p.state.Or(written)&withdrawn != 0 {
		return nil, errWithdrawn
	}
	return []byte(p.text), nil
}

// String returns the text, for logs of commands.
func (p *program) String() string { return p.text }

func (p *program) left() bool { return p.state.Load()&written != 0 }

// withdraw forbids later writes, and reports whether there was one before.
func (p *program) withdraw() bool { return p.state.Or(withdrawn)&written != 0 }
