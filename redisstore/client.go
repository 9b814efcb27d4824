// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// Client sends the scripts of a [Store] to its servers, over a client library for Redis.
// Packages rueidisstore and goredis contain one each. It must be safe for concurrent use.
//
// A script charges units, so a Client sends it once. It may send a script again only if no
// byte of it was sent, or if the server has answered that it ran nothing, as MOVED, ASK,
// LOADING and READONLY say. Many libraries send a command again after a lost connection:
// that must be disabled.
type Client interface {
	// Run sends one or more scripts, as one pipeline if it can, and sets the reply of each:
	// replies is as long as scripts. Scripts for one server run in their order. Run returns
	// when ctx ends, which always has a deadline, even if a server hangs: scripts without
	// a reply then get an error. In a Cluster it follows MOVED and ASK. It keeps no
	// reference to its arguments.
	Run(ctx context.Context, scripts []*Script, replies []Reply)
	// Info returns the text with which each server, or each primary of a Cluster, replies
	// to INFO, by its address, and the errors of the others, joined. The address of a
	// single server may be empty. A Client without a connection may return nothing and no
	// error: then it must call [CheckServers] over each connection that it makes. Info
	// returns when ctx ends.
	Info(ctx context.Context) (texts map[string]string, err error)
	// Cluster reports whether the Client spreads keys over the nodes of a Cluster. Then each
	// script has keys of one hash slot. The result never changes.
	Cluster() bool
}

// Script is a script and its arguments, to be sent by EVALSHA or, if it has a Text, by EVAL. If
// a server answers NOSCRIPT, the Store sends the script again, with its Text. Keys and Args
// may hold any bytes.
type Script struct {
	SHA  string // SHA-1 of the text, in hexadecimal
	Text string // empty for EVALSHA
	Keys []string
	Args []string
}

// Reply is the reply to a [Script], or an element of a list in one: a text, a list or an
// error. The zero value is an empty text.
type Reply struct {
	// Err is the error that the server has answered, or the reason why there is no
	// answer. It must be or wrap a [*sluice.NotSentError] if no byte of the script was
	// sent and none will be: the caller may then ask elsewhere. After any other error
	// without an answer the script may have run.
	Err error
	// Refused means that Err is the server's answer, so that the script has not run or has
	// failed. The text of Err begins with the server's error code, such as NOSCRIPT.
	Refused bool
	// Text is a text of any bytes, or the decimal digits of an integer. It is empty for
	// nil.
	Text string
	// List is a list. It is not nil if the reply is an empty list.
	List []Reply
}

// errReply is the error for a reply whose form is not that of the script.
var errReply = errors.New("the script's reply is malformed: another program may use its keys")

// errNotRun is the error for a script that a call of several scripts has not run.
var errNotRun = errors.New("the call has not run this script")

// says reports whether the server's answer begins with a word.
func (r *Reply) says(word string) bool {
	return r.Refused && strings.HasPrefix(r.Err.Error(), word)
}

// moving reports whether the servers of a Cluster disagree on the owner of the keys, after
// all redirections that the Client follows. No server has run the script.
func (r *Reply) moving() bool {
	return r.says("TRYAGAIN") || r.says("MOVED ") || r.says("ASK ")
}

// ranNothing reports whether the server has certainly not run the script, so that it is to
// be sent again.
func (r *Reply) ranNothing() bool {
	return r.says("NOSCRIPT") || r.moving() || errors.Is(r.Err, errNotRun)
}

// text returns a reply that must be a text.
func (r *Reply) text() (string, error) {
	if r.Err == nil && r.List != nil {
		return "", errReply
	}
	return r.Text, r.Err
}

// int returns a reply that must be an integer.
func (r *Reply) int() (int64, error) {
	text, err := r.text()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// list returns a reply that must be a list of at least least elements.
func (r *Reply) list(least int) ([]Reply, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.List == nil || len(r.List) < least:
		return nil, errReply
	}
	return r.List, nil
}
