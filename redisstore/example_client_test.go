// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test //nolint:testableexamples // the example needs a server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strconv"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
)

// connClient is a Client over one connection to a single server. After an error it sends
// nothing more, as the next reply on the connection may be that of another script.
type connClient struct {
	token  chan struct{} // has room for one; full while a call uses the connection
	conn   net.Conn
	reader *bufio.Reader
	broken error
}

func newConnClient(conn net.Conn) *connClient {
	return &connClient{token: make(chan struct{}, 1), conn: conn, reader: bufio.NewReader(conn)}
}

func (c *connClient) Cluster() bool { return false }

func (c *connClient) Info(ctx context.Context) (map[string]string, error) {
	replies := make([]redisstore.Reply, 1)
	if c.send(ctx, [][]string{{"INFO"}}, replies); replies[0].Err != nil {
		return nil, replies[0].Err
	}
	return map[string]string{c.conn.RemoteAddr().String(): replies[0].Text}, nil
}

func (c *connClient) Run(ctx context.Context, scripts []*redisstore.Script, replies []redisstore.Reply) {
	commands := make([][]string, len(scripts))
	for i, s := range scripts {
		command := []string{"EVALSHA", s.SHA}
		if s.Text != "" {
			command = []string{"EVAL", s.Text}
		}
		command = append(command, strconv.Itoa(len(s.Keys)))
		commands[i] = append(append(command, s.Keys...), s.Args...)
	}
	c.send(ctx, commands, replies)
}

func (c *connClient) send(ctx context.Context, commands [][]string, replies []redisstore.Reply) {
	if err := c.acquire(ctx); err != nil {
		for i := range replies {
			replies[i] = redisstore.Reply{Err: &sluice.NotSentError{Err: err}}
		}
		return
	}
	defer func() { <-c.token }()
	var text []byte
	for _, command := range commands {
		text = fmt.Appendf(text, "*%d\r\n", len(command))
		for _, word := range command {
			text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	end, _ := ctx.Deadline()
	err := c.conn.SetDeadline(end)
	if err == nil {
		_, err = c.conn.Write(text)
	}
	for i := range replies {
		if err == nil {
			replies[i], err = readReply(c.reader)
		}
		if err != nil { // the script may have run
			replies[i], c.broken = redisstore.Reply{Err: err}, err
		}
	}
}

// acquire waits until the connection is free, or returns an error when ctx ends or the
// connection is broken.
func (c *connClient) acquire(ctx context.Context) error {
	select {
	case c.token <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := cmp.Or(c.broken, ctx.Err())
	if err != nil {
		<-c.token
	}
	return err
}

// readReply reads a reply in RESP2. It returns an error if it could not read one.
func readReply(r *bufio.Reader) (redisstore.Reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return redisstore.Reply{}, err
	}
	kind, text := line[0], line[1:len(line)-len("\r\n")]
	switch kind {
	case '+', ':':
		return redisstore.Reply{Text: text}, nil
	case '-':
		return redisstore.Reply{Err: errors.New(text), Refused: true}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return redisstore.Reply{}, err // nil
	}
	if kind == '$' {
		data := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, data)
		return redisstore.Reply{Text: string(data[:n])}, err
	}
	list := make([]redisstore.Reply, n)
	for i := range list {
		if list[i], err = readReply(r); err != nil {
			return redisstore.Reply{}, err
		}
	}
	return redisstore.Reply{List: list}, nil
}

// A Client over a single connection. Unlike a library, it has no pool and cannot connect
// again.
func ExampleClient() {
	conn, err := net.Dial("tcp", "127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	store, err := redisstore.New(newConnClient(conn), redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := errors.Join(store.Close(), conn.Close()); err != nil { // in this order
			log.Print(err)
		}
	}()
	logins, err := sluice.New(store, "login", sluice.PerMinute(5))
	if err != nil {
		log.Print(err)
		return
	}
	d, err := logins.Take(context.Background(), "user-42", 1)
	if err != nil {
		log.Print(err) // let it pass or not, as you decide
		return
	}
	fmt.Println(d.Allowed, d.Remaining)
}
