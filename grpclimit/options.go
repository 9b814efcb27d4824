// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Options configure a [Server]. Store is required, and one of Rules, Policy,
// Messages and Replies; zero values of all other fields are valid.
type Options struct {
	Store sluice.Store
	// Slots keeps the calls in flight. Nil means Store, if it is a [sluice.SlotStore].
	Slots sluice.SlotStore

	// Rules are the rules for a call, which decide a stream when it opens.
	Rules []policy.Rule
	// Policy are compiled rules, such as those of a file that package config has read.
	Policy *policy.Policy
	// Messages are the rules for each message that a client sends on a stream, and Replies
	// those for each that the server sends. A limit in bytes counts the message's. A message
	// that is delayed delays all behind it; one that is denied ends the stream. These rules
	// have no When and no InFlight.
	Messages, Replies []policy.Rule

	// Trusted are the proxies whose ClientHeader, a metadata key, is trusted, which is
	// x-forwarded-for by default. Without any, the client is the peer.
	Trusted      []netip.Prefix
	ClientHeader string
	// ClientHops, from 1 to 16, is for proxies whose networks are not known: see
	// [evaluate.Options].
	ClientHops int
	// Allow, if not empty, are the only networks whose clients are admitted; clients in
	// Deny are not admitted even so.
	Allow, Deny []netip.Prefix

	// Claims, if not nil, returns a lookup of the claims of a call's token, nil if it has
	// none. It is called once for each call and each direction of a stream, and only if a
	// rule needs a claim. Its errors mean the same as those of httplimit.Options: the call
	// ends with UNAUTHENTICATED.
	Claims func(ctx context.Context) (func(string) (string, error), error)
	// TokenRequired refuses a call that has no token, if a rule needs a claim, whatever the
	// rule's [policy.Missing] is.
	TokenRequired bool

	// MaxWait is how long a call or message may be delayed until it fits, under any
	// algorithm; at most sluice.MaxWait. Zero leaves it to the rules, and to limits that
	// queue, such as a leaky bucket. The least of these applies, and nothing is delayed past
	// the deadline of the call.
	MaxWait time.Duration
	// Queue bounds how many calls and messages are delayed at once. Nil means one new Queue
	// each for calls, messages and replies, of 10,000 places.
	Queue *evaluate.Queue

	// Fields sends ratelimit and ratelimit-policy in the header of every call that passes,
	// at about a microsecond each. Denials always have them.
	Fields bool
	// Size returns the size of a message in bytes. Nil means proto.Size; set it for messages
	// of another codec, which would count one byte each.
	Size func(message any) int

	// OnDecision, if not nil, is called once for every call and message that is decided,
	// and after any delay. It must be safe for concurrent use and quick.
	OnDecision func(c Call, e evaluate.Event)
	// OnError, if not nil, is called with every error of the store, and of a function of the
	// Options that is not the client's fault. For a call that has left, c may hold only a
	// context. OnError must be safe for concurrent use and quick. Nil logs errors to
	// slog.Default, at most one a second.
	OnError func(c Call, err error)
	// Now is the clock by which overrides expire. Calls wait by the machine's clock. Nil means
	// time.Now.
	Now func() time.Time
}

// Limit returns a Server that charges each call to its key under limits, as the simple case of
// [New]. The scope names the budget and the rule. The error joins all faults.
func Limit(store sluice.Store, scope string, key policy.Part, limits ...sluice.Limit) (*Server, error) {
	return New(Options{Store: store, Rules: []policy.Rule{policy.NewRule(scope, key, limits...)}})
}

// New returns a Server, or an error that joins all faults of o.
func New(o Options) (*Server, error) {
	s := &Server{opts: o, idle: sync.Pool{New: func() any { return new(decision) }}}
	common := evaluate.Options{
		Store: o.Store, Slots: o.Slots, Trusted: o.Trusted, ClientHeader: o.ClientHeader, ClientHops: o.ClientHops,
		Allow: o.Allow, Deny: o.Deny, MaxWait: o.MaxWait, Queue: o.Queue, Now: o.Now, NoBodies: true,
	}
	if o.OnDecision != nil {
		common.OnDecision = func(_ context.Context, a policy.Attributes, e *evaluate.Event) { o.OnDecision(CallOf(a), *e) }
	}
	if o.OnError != nil {
		common.OnError = func(ctx context.Context, a policy.Attributes, err error) {
			c := CallOf(a)
			c.Context = ctx // of the error, which may concern a call that has left
			o.OnError(c, err)
		}
	}
	var all []error
	evaluator := func(option string, rules []policy.Rule, compiled *policy.Policy) *evaluate.Evaluator {
		of := common
		of.Name, of.Rules, of.Policy, of.NoResponses = "grpclimit: "+option, rules, compiled, option != "calls"
		f, err := evaluate.New(of)
		all = append(all, err)
		return f
	}
	if len(o.Messages)+len(o.Replies) > 0 && len(o.Rules) == 0 && o.Policy == nil && len(o.Allow)+len(o.Deny) > 0 {
		o.Policy, _ = policy.Compile(nil) // each call is decided on arrival
	}
	if len(o.Messages)+len(o.Replies) == 0 || o.Policy != nil || len(o.Rules) > 0 {
		s.calls = evaluator("calls", o.Rules, o.Policy)
	}
	if len(o.Messages) > 0 {
		s.messages = evaluator("Messages", ofMessages(o.Messages), nil)
	}
	if len(o.Replies) > 0 {
		s.replies = evaluator("Replies", ofMessages(o.Replies), nil)
	}
	if err := errors.Join(all...); err != nil {
		return nil, err
	}
	return s, nil
}

// ofMessages returns the rules with response bytes replaced by the bytes of a message.
func ofMessages(rules []policy.Rule) []policy.Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		if rules[i].Cost.Of == policy.ResponseBytes {
			rules[i].Cost.Of = policy.RequestBytes
		}
	}
	return rules
}

// ServerOptions returns the interceptors of unary calls and of streams. Interceptors of earlier
// options run before them, those of later options after them.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream)}
}
