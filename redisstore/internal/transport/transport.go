// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package transport defines the interface of package redisstore to a client of Redis.
package transport

import (
	"context"
	"errors"
	"strings"
)

// NewStore returns a *redisstore.Store over a client, for a redisstore.Options. Package
// redisstore sets it, so that the packages for clients can make stores, and the API of
// redisstore has no client's type.
var NewStore func(t Transport, options any) (store any, err error)

// Transport sends a store's scripts to its servers. It must be safe for concurrent use.
//
// A script charges units. So it may be sent again only if it has certainly not run: the
// server has answered MOVED or ASK, or that it may not write or is not ready, or there was
// no connection.
type Transport interface {
	// Run sends one script and returns its reply. It returns when ctx ends,
	// whatever the server does. It keeps no reference to the script.
	Run(ctx context.Context, s *Script) Reply
	// RunAll is Run for several scripts that are sent together, in their order for each
	// server. It sets the reply of each.
	RunAll(ctx context.Context, list []*Script, replies []Reply)
	// Info returns the replies of the servers to INFO, by their addresses. The address
	// of a single server may be empty.
	Info(ctx context.Context) map[string]Reply
	// Cluster reports whether the servers are a Cluster: a key is on the server of its
	// hash slot, and a script may have keys of one slot only.
	Cluster() bool
}

// Script is a program for a server, which runs it with EVALSHA or EVAL.
type Script struct {
	SHA  string   // its name, for EVALSHA
	Text string   // if not empty, the text for EVAL
	Keys []string // one or more, all of one hash slot
	Args []string
}

// Reply is the result of a script: an error, a text or a list. The zero value is an empty
// text.
type Reply struct {
	// Err is the error that the server has answered, or the reason why there is no
	// answer. It is a [*sluice.NotSentError] if nothing was sent, and nothing will be.
	Err error
	// Refused is set if Err is the server's answer. Its text begins with the server's
	// error code, such as NOSCRIPT.
	Refused bool
	Text    string
	List    List
}

// List is a list in a reply. Its methods panic if the index is out of range.
type List interface {
	Len() int
	// Text returns a text, which is empty for nil.
	Text(i int) (string, error)
	// Int returns an integer, or the value of a decimal text.
	Int(i int) (int64, error)
	// List returns a list in the list.
	List(i int) (List, error)
	// Reply returns an element as a reply.
	Reply(i int) Reply
}

// ErrReply is the error for a reply whose form is not that of the script.
var ErrReply = errors.New("the script's reply makes no sense: is it another program's?")

// Says reports whether the server's answer begins with a word.
func (r *Reply) Says(word string) bool {
	return r.Refused && strings.HasPrefix(r.Err.Error(), word)
}

// Moving reports whether the servers of a Cluster disagree on the owner of the keys, after
// all redirections that the transport follows. No server has run the script.
func (r *Reply) Moving() bool {
	return r.Says("TRYAGAIN") || r.Says("MOVED ") || r.Says("ASK ")
}

// ErrNotRun is the error for a script that a call for several scripts has not run.
var ErrNotRun = errors.New("the call has not run this script")

// RanNothing reports whether the server has certainly not run the script, so that it is to
// be sent again.
func (r *Reply) RanNothing() bool {
	return r.Says("NOSCRIPT") || r.Moving() || errors.Is(r.Err, ErrNotRun)
}

// AsText returns a reply that must be a text.
func (r *Reply) AsText() (string, error) {
	if r.Err == nil && r.List != nil {
		return "", ErrReply
	}
	return r.Text, r.Err
}

// AsList returns a reply that must be a list of at least least elements.
func (r *Reply) AsList(least int) (List, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.List == nil || r.List.Len() < least:
		return nil, ErrReply
	}
	return r.List, nil
}
