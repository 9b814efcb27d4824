// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package transport is what a store of package redisstore needs of a client of
// Redis.
package transport

import (
	"context"
	"errors"
	"strings"
)

// NewStore returns a *redisstore.Store over a client, for a redisstore.Options.
// Package redisstore sets it: so the packages beside that make stores over other
// clients, and no client's type is in its API.
var NewStore func(t Transport, options any) (store any, err error)

// Transport is how a store reaches its servers. It must be safe for concurrent use.
//
// What a script decides it charges. So it is sent again only where it is certain
// that it has not run: the server has answered MOVED or ASK, or that it may not
// write or is not ready, or there was no connection.
type Transport interface {
	// Run sends one script and returns its reply. It returns when ctx ends,
	// whatever the server does. It keeps no reference to the script.
	Run(ctx context.Context, s *Script) Reply
	// RunAll is Run of several scripts that go out together, in their order for
	// each server. It sets the reply of each.
	RunAll(ctx context.Context, list []*Script, replies []Reply)
	// Info returns the replies of the servers to INFO, by their addresses. That of
	// a single one may be empty.
	Info(ctx context.Context) map[string]Reply
	// Cluster reports whether a key is on the server of its hash slot, and a
	// script has keys of one slot only.
	Cluster() bool
}

// Script is a program that a server is to run, with EVALSHA or EVAL.
type Script struct {
	SHA  string   // its name, for EVALSHA
	Text string   // if not empty it is sent, with EVAL
	Keys []string // one or more, all of one hash slot
	Args []string
}

// Reply is the result of a script. One that is not an error is a text, or a
// list. The zero value is an empty text.
type Reply struct {
	// Err is nil, or what the server has answered, or why there is no answer. It
	// is a [*sluice.NotSentError] if nothing has left, and nothing will.
	Err error
	// Refused says that Err is the server's answer. Its text begins with the
	// server's word for it, such as NOSCRIPT.
	Refused bool
	Text    string
	List    List
}

// List is a list in a reply. An index it does not have panics.
type List interface {
	Len() int
	// Text returns a text, which is empty for nil.
	Text(i int) (string, error)
	// Int returns an integer, or what a text says in decimal.
	Int(i int) (int64, error)
	// List returns a list in the list.
	List(i int) (List, error)
	// Reply returns what stands there as a reply of its own.
	Reply(i int) Reply
}

// ErrReply is a reply of another form than the script's.
var ErrReply = errors.New("the script's reply makes no sense: is it another program's?")

// Says reports whether the server's answer begins with a word.
func (r *Reply) Says(word string) bool {
	return r.Refused && strings.HasPrefix(r.Err.Error(), word)
}

// Moving reports whether the servers of a Cluster disagree on where the keys are,
// also after what the transport has followed. None has run the script.
func (r *Reply) Moving() bool {
	return r.Says("TRYAGAIN") || r.Says("MOVED ") || r.Says("ASK ")
}

// ErrNotRun says of a script that was to be run by a call for several that it was not.
var ErrNotRun = errors.New("the call has not run this script")

// RanNothing reports whether it is certain that the server did not run the script, and
// the script is to be sent again.
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

// AsList returns a reply that must be a list of at least so many.
func (r *Reply) AsList(least int) (List, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.List == nil || r.List.Len() < least:
		return nil, ErrReply
	}
	return r.List, nil
}
