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
	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// command is a script on its way. go-redis sends a command again when its
// connection breaks, or all of a pipeline when the first of it is refused, unless
// it is asked not to: NoRetry leaves it what says that nothing has run, such as
// MOVED and ASK.
type command struct {
	*redis.Cmd
	program *program
}

// NoRetry says that the command must not run twice.
func (*command) NoRetry() bool { return true }

// firstKey is where EVAL and EVALSHA have their first key.
const firstKey = 3

func newCommand(ctx context.Context, s *transport.Script) *command {
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
	// With these it asks no server what the command is.
	c.SetFirstKeyPos(firstKey)
	c.SetStepCount(1)
	return c
}

// reply returns the outcome of a command that has ended.
func (c *command) reply(ctx context.Context) transport.Reply {
	// What was read is the answer: where a connection breaks later in a pipeline
	// go-redis gives the error to all.
	switch v := c.Val().(type) {
	case string:
		return transport.Reply{Text: v}
	case []any:
		return transport.Reply{List: list(v)}
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
		return transport.Reply{Err: &sluice.NotSentError{Err: err}}
	case err == nil:
		return transport.Reply{Err: fmt.Errorf("goredis: a script has returned a %T", c.Val())}
	case errors.Is(err, redis.Nil):
		return transport.Reply{}
	}
	if refused, ok := errors.AsType[redis.Error](err); ok {
		return transport.Reply{Err: refused, Refused: true}
	}
	return transport.Reply{Err: err}
}

// over reports whether the deadline of ctx has passed, of which a connection may
// know first.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

// withdraw gives up a command whose time is over. What has not left never will.
func (c *command) withdraw(err error) transport.Reply {
	if !c.program.withdraw() {
		err = &sluice.NotSentError{Err: err}
	}
	return transport.Reply{Err: err}
}

var (
	errSwallowed = errors.New("goredis: a hook of the client has not sent the script")
	errWithdrawn = errors.New("goredis: the script's time is over")
)

// program is the script's name or text in a command. It is asked for its bytes
// when they are written, and so knows whether any may have left.
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

// withdraw reports whether it was too late for that.
func (p *program) withdraw() bool { return p.state.Or(withdrawn)&written != 0 }
