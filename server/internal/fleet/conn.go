// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/redisstore/redisurl"
)

const (
	// DefaultPrefix begins the names of keys, as in package redisstore.
	DefaultPrefix = "sluice"
	// Timeout is the longest time of one call of the store.
	Timeout = time.Second

	bufferBytes = 64 << 10 // of a connection, for reads and writes each
	ringScale   = 6        // 2^6 calls of a connection in flight
)

// ErrNotSent is the error of a call that did not reach the store, or that the store has
// refused: its script has changed nothing and will not.
var ErrNotSent = errors.New("fleet: the store cannot be reached")

// errNotConnected is the error of a call before the first connection.
var errNotConnected = errors.New("there is no connection yet")

// Node is one process among those that share a store.
type Node struct {
	ID   string // random, drawn at the start
	Name string // for people: the host
}

// Options name the servers and this node. Target, Client, Connect and Node are required.
type Options struct {
	Target *redisurl.URL
	Client rueidis.ClientOption // for the Target
	Secret []byte               // hashes names and encrypts values; empty: they are readable
	// Connect makes a client whose connections end with ctx.
	Connect func(ctx context.Context, target *redisurl.URL, option rueidis.ClientOption) (rueidis.Client, error)
	Prefix  string // begins the names of keys; empty: the target's, or the default
	Node    Node
	Log     *slog.Logger // nil means [slog.Default]

	Every time.Duration // the longest time between two polls; 0 means [Every]
	// Timeout is the longest time of a call; 0 means [Timeout]. Only tests set it, to a longer
	// time that holds for connections and parts, too: a busy machine is no outage.
	Timeout time.Duration
}

// Conn is a node's connection for calls other than decisions. Make one with [New],
// register its parts, then Run it. It is safe for concurrent use.
type Conn struct {
	o      Options
	seal   cipher.AEAD // nil without a secret
	hashes []byte      // key that hashes names; nil without a secret
	parts  []Part

	client  atomic.Pointer[rueidis.Client]
	failure atomic.Pointer[failure] // of the last poll
	poked   chan struct{}
	warned  atomic.Int64 // ns since the epoch

	connected, loads time.Time // when client was made, and when the server first reported loading; used by Run only
}

type failure struct{ err error }

// New returns a Conn. It does not connect.
func New(o Options) (*Conn, error) {
	o.Prefix, o.Log = cmp.Or(o.Prefix, o.Target.Parameters["prefix"], DefaultPrefix), cmp.Or(o.Log, slog.Default())
	o.Every, o.Timeout = cmp.Or(o.Every, Every), cmp.Or(o.Timeout, Timeout)
	c := &Conn{o: o, poked: make(chan struct{}, 1)}
	if len(o.Secret) > 0 {
		if err := c.keepSecret(o.Secret); err != nil {
			return nil, fmt.Errorf("fleet: %w", err)
		}
	}
	c.o.Client.ClientName, c.o.Client.PipelineMultiplex, c.o.Client.AlwaysPipelining = "sluice-fleet", -1, true
	c.o.Client.ConnWriteTimeout = max(c.o.Client.ConnWriteTimeout, c.o.Timeout)
	c.o.Client.Dialer.Timeout = max(c.o.Client.Dialer.Timeout, c.o.Timeout)
	c.o.Client.ReadBufferEachConn, c.o.Client.WriteBufferEachConn, c.o.Client.RingScaleEachConn = bufferBytes, bufferBytes, ringScale
	c.failure.Store(&failure{errNotConnected})
	return c, nil
}

// Node returns this node.
func (c *Conn) Node() Node { return c.o.Node }

// Every returns the longest time between two polls.
func (c *Conn) Every() time.Duration { return c.o.Every }

// Key returns the full name of a key in the store. name consists of a-z, 0-9, '.' and ':'.
func (c *Conn) Key(name string) string { return c.o.Prefix + "{fleet}!" + name }

// Err returns the error of the last poll, nil if it succeeded. It never blocks.
func (c *Conn) Err() error { return c.failure.Load().err }

// warn logs a failure, once a minute at most.
func (c *Conn) warn(message string, err error) {
	now := time.Now().UnixNano()
	if last := c.warned.Load(); time.Duration(now-last) < time.Minute || !c.warned.CompareAndSwap(last, now) {
		return
	}
	c.o.Log.Warn(message, slog.String("store", c.o.Target.String()), slog.Any("error", err)) //nolint:sloglint // each caller has one text
}

// Script is a script that runs in the store.
type Script struct{ lua *rueidis.Lua }

// NewScript returns a Script. The script must return a list of strings; numbers in it are
// lost. It may call TIME before it writes.
func NewScript(text string) *Script { return &Script{rueidis.NewLuaScript(text)} }

// Eval runs a script on keys named by [Conn.Key], until ctx ends and no longer than
// Options.Timeout. It sends the script once. After an error other than [ErrNotSent] the
// script may have run.
func (c *Conn) Eval(ctx context.Context, s *Script, keys []string, args ...string) ([]string, error) {
	client := c.client.Load()
	if client == nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, c.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	list, err := s.lua.Exec(ctx, *client, keys, args).AsStrSlice()
	if takesNoWrites(err) {
		c.Poke() // the poll reconnects
	}
	if answered(err) {
		return nil, fmt.Errorf("%w: the server refuses it: %w", ErrNotSent, err) // it has changed nothing
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return list, nil
}

// answered reports whether an error is a server's reply, such as NOPERM.
func answered(err error) bool {
	_, ok := errors.AsType[*rueidis.RedisError](err)
	return ok
}

// noWrites are the prefixes of replies of servers that take no writes.
var noWrites = []string{"READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF"}

// takesNoWrites reports whether an error is the reply of a server that takes no writes: a
// replica, a primary without the replicas or the disk that it needs, or a server that loads
// its data.
func takesNoWrites(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && (reply.IsLoading() || slices.ContainsFunc(noWrites, func(word string) bool { return strings.HasPrefix(reply.Error(), word) }))
}

// loading reports whether an error is the reply of a server that loads its data.
func loading(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && reply.IsLoading()
}

// lasting reports whether an error is the reply of a server that is ready, so that the fault
// does not end by itself.
func lasting(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && !takesNoWrites(err) && !reply.IsClusterDown() && !reply.IsTryAgain() && !strings.Contains(reply.Error(), "max number of clients")
}

// keepSecret derives the key that encrypts values and the key that hashes names from the
// secret for the names of keys.
func (c *Conn) keepSecret(secret []byte) error {
	key, err := hkdf.Key(sha256.New, secret, nil, "what nodes share", 32)
	if err != nil {
		return err
	}
	if c.hashes, err = hkdf.Key(sha256.New, secret, nil, "names of what nodes share", 32); err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	c.seal, err = cipher.NewGCM(block)
	return err
}

// format begins a record or an entry that is not sealed. A later release with another format
// uses the next digit, up to 9.
const format = '1'

// ErrLater is the error for shared data of a later release, which this one can neither read
// nor replace.
var ErrLater = errors.New("fleet: a later release has written this, in a format that this one does not read: update this node, or ask one of that release")

// pack returns the stored form of the body of a record or entry.
func (c *Conn) pack(at string, body []byte) string {
	return c.Seal(at, append([]byte{format}, body...))
}

// unpack returns the body from its stored form.
func (c *Conn) unpack(at, kept string) ([]byte, error) {
	body, err := c.Unseal(at, kept)
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0 || body[0] < format || body[0] > '9':
		return nil, errors.New("fleet: the value in the store has no known format")
	case body[0] != format:
		return nil, ErrLater
	}
	return body[1:], nil
}

// Seal returns the stored form of a value that names keys: encrypted if the nodes have a
// secret for the names of keys. Then a reader of the server cannot know the value, and a
// writer cannot forge one. at is the place of the value, and must be the same for Unseal.
func (c *Conn) Seal(at string, value []byte) string {
	if c.seal == nil {
		return string(value)
	}
	nonce := make([]byte, c.seal.NonceSize(), c.seal.NonceSize()+len(value)+c.seal.Overhead())
	rand.Read(nonce) // never fails
	return string(c.seal.Seal(nonce, nonce, value, []byte(at)))
}

// Unseal returns the value from its stored form.
func (c *Conn) Unseal(at, kept string) ([]byte, error) {
	if c.seal == nil {
		return []byte(kept), nil
	}
	n := c.seal.NonceSize()
	if len(kept) < n {
		return nil, errSeal
	}
	value, err := c.seal.Open(nil, []byte(kept[:n]), []byte(kept[n:]), []byte(at))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSeal, err)
	}
	return value, nil
}

var errSeal = errors.New("fleet: a value in the store was not written under this node's secret_file")
