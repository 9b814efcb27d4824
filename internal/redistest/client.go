// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Reply is a server's reply to a command, or an element of a list in one. The zero value is
// nil or an empty text.
type Reply struct {
	Err     error // the server's answer, or the reason why there is none
	Refused bool  // whether Err is the server's answer
	Text    string
	List    []Reply // not nil if the reply is a list
}

// Client sends commands to one server or to the nodes of a Cluster, over one connection for
// each. It is safe for concurrent use. It sends a command again only if the server has answered
// MOVED or ASK.
type Client struct {
	first  *node
	nodes  map[string]*node // by address
	mu     sync.Mutex
	owners map[string]*node // of a Cluster: by the tag of a key, if MOVED has named them
}

// newClient returns a client of a Cluster of servers or, if cluster is false, of the first
// server.
func newClient(cluster bool, servers ...*Server) *Client {
	c := &Client{nodes: make(map[string]*node)}
	for _, s := range servers {
		c.nodes[s.Addr] = newNode(s)
	}
	c.first = c.nodes[servers[0].Addr]
	if cluster {
		c.owners = make(map[string]*node)
	}
	return c
}

// Connect returns a client of the server, closed when the test ends.
func (s *Server) Connect(t testing.TB) *Client {
	t.Helper()
	return closed(t, newClient(false, s))
}

// ConnectAs is Connect as another user.
func (s *Server) ConnectAs(t testing.TB, user, password string) *Client {
	t.Helper()
	c := newClient(false, s)
	c.first.user, c.first.password = user, password
	return closed(t, c)
}

// ConnectTo returns a client of the server at an address, such as that of a [Proxy], without
// TLS and users. It is closed when the test ends.
func ConnectTo(t testing.TB, addr string) *Client {
	t.Helper()
	return closed(t, newClient(false, &Server{Addr: addr}))
}

// Connect returns a client of the Cluster, closed when the test ends.
func (c *Cluster) Connect(t testing.TB) *Client {
	t.Helper()
	return closed(t, newClient(true, c.nodes()...))
}

func closed(t testing.TB, c *Client) *Client {
	t.Cleanup(c.Close)
	return c
}

// Close closes the connections. Calls after it are not sent.
func (c *Client) Close() {
	for _, n := range c.nodes {
		n.close()
	}
}

// Cluster reports whether the servers are a Cluster.
func (c *Client) Cluster() bool { return c.owners != nil }

// Info returns the replies of all servers to INFO, by their addresses, and the errors of the
// others.
func (c *Client) Info(ctx context.Context) (map[string]string, error) {
	texts := make(map[string]string)
	var faults []error
	for addr, n := range c.nodes {
		r := n.send(ctx, [][]string{{"INFO"}})[0]
		if r.Err == nil {
			texts[addr] = r.Text
		} else {
			faults = append(faults, fmt.Errorf("%s: %w", addr, r.Err))
		}
	}
	return texts, errors.Join(faults...)
}

// Do sends a command and returns its reply. It returns when ctx ends.
func (c *Client) Do(ctx context.Context, command ...string) Reply {
	return c.Pipeline(ctx, command)[0]
}

// ScriptCommand returns the command that runs a script, by its text if that is not empty.
func ScriptCommand(sha, text string, keys, args []string) []string {
	command := []string{"EVALSHA", sha}
	if text != "" {
		command = []string{"EVAL", text}
	}
	return slices.Concat(command, []string{strconv.Itoa(len(keys))}, keys, args)
}

// Pipeline sends commands together, those for one server in their order, and returns their
// replies. It returns when ctx ends. A command without a reply gets a [*sluice.NotSentError]
// if it was not sent.
func (c *Client) Pipeline(ctx context.Context, commands ...[]string) []Reply {
	if !c.Cluster() {
		return c.first.send(ctx, commands)
	}
	replies := make([]Reply, len(commands))
	left := make([]int, len(commands))
	for i := range left {
		left[i] = i
	}
	for try := 0; len(left) > 0 && try < 5; try++ {
		byNode := make(map[*node][]int)
		for _, i := range left {
			n := c.owner(commands[i])
			byNode[n] = append(byNode[n], i)
		}
		left = nil
		for n, list := range byNode {
			part := make([][]string, len(list))
			for k, i := range list {
				part[k] = commands[i]
			}
			for k, r := range n.send(ctx, part) {
				i := list[k]
				if replies[i] = r; c.redirected(ctx, commands[i], &replies[i]) {
					left = append(left, i)
				}
			}
		}
		slices.Sort(left)
	}
	return replies
}

// owner returns the node that a command is sent to.
func (c *Client) owner(command []string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.owners[tagOf(command)]; n != nil {
		return n
	}
	return c.first
}

// tagOf returns the part of a command's key that determines its node.
func tagOf(command []string) string {
	key := command[min(1, len(command)-1)]
	if strings.HasPrefix(command[0], "EVAL") {
		key = command[3]
	}
	_, rest, _ := strings.Cut(key, "{")
	if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
		return tag
	}
	return key
}

// redirected reports whether a command must be sent again, as another node owns its key. If
// the node has answered ASK, redirected sends the command there itself.
func (c *Client) redirected(ctx context.Context, command []string, r *Reply) bool {
	if !r.Refused {
		return false
	}
	fields := strings.Fields(r.Err.Error())
	if len(fields) != 3 || c.nodes[fields[2]] == nil {
		return false
	}
	n := c.nodes[fields[2]]
	switch fields[0] {
	case "ASK":
		*r = n.send(ctx, [][]string{{"ASKING"}, command})[1]
	case "MOVED":
		c.mu.Lock()
		c.owners[tagOf(command)] = n
		c.mu.Unlock()
		return true
	}
	return false
}
