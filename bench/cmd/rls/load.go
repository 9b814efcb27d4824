// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

const (
	users       = 100_000
	connections = 8
	streams     = 8  // requests at once on a connection
	mostStreams = 64 // at half load, where more come at once if the server falls behind
)

// question returns a request of user i, and of the next ones.
func question(i, descriptors int) *pb.RateLimitRequest {
	q := &pb.RateLimitRequest{Domain: "bench"}
	for n := range descriptors {
		q.Descriptors = append(q.Descriptors, &commonpb.RateLimitDescriptor{
			Entries: []*commonpb.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.Itoa((i + n) % users)}},
		})
	}
	return q
}

// questions are requests as gRPC frames them.
var questions = sync.OnceValues(func() (all [][]byte, err error) {
	for i := range users {
		text, err := proto.Marshal(question(i, 1))
		if err != nil {
			return nil, err
		}
		all = append(all, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...))
	}
	return all, nil
})

// press sends requests for a while, at a rate, or as fast as they are answered if it is 0. It
// returns how long each took: at a rate, from the moment when it was due.
func press(ctx context.Context, address string, rate float64, length time.Duration) (all []time.Duration, err error) {
	if _, err := questions(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, length+30*time.Second)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	begin := time.Now()
	for n := range connections {
		wait.Go(func() {
			c, oneErr := dial(ctx, address, n*users/connections)
			if oneErr == nil {
				if rate == 0 {
					oneErr = c.closed(begin.Add(length))
				} else {
					interval := time.Duration(connections * float64(time.Second) / rate)
					oneErr = c.open(begin.Add(interval*time.Duration(n)/connections), begin.Add(length), interval)
				}
				oneErr = errors.Join(oneErr, c.Close())
			}
			mu.Lock()
			defer mu.Unlock()
			if c != nil {
				all = append(all, c.took...)
			}
			err = errors.Join(err, oneErr)
		})
	}
	wait.Wait()
	if len(all) == 0 {
		err = errors.Join(err, errors.New("no request was answered"))
	}
	return all, err
}

// conn is a connection of HTTP/2, which costs little, so that the servers get the cores.
type conn struct {
	net.Conn
	in     *bufio.Reader
	fields []byte // the header fields of the next request
	later  []byte // those of all after the first, which the server knows by then
	user   int    // the next request

	mu     sync.Mutex // of what follows
	out    *bufio.Writer
	frames *http2.Framer
	stream uint32 // the next
	began  map[uint32]time.Time
	ended  bool // no request follows
	took   []time.Duration
}

func dial(ctx context.Context, address string, user int) (*conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := nc.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, nc.Close())
		}
	}
	c := &conn{Conn: nc, in: bufio.NewReader(nc), out: bufio.NewWriter(nc), user: user, stream: 1, began: make(map[uint32]time.Time)}
	c.frames = http2.NewFramer(c.out, c.in)
	c.frames.SetReuseFrames()
	var fields bytes.Buffer
	enc := hpack.NewEncoder(&fields)
	for _, list := range []*[]byte{&c.fields, &c.later} {
		fields.Reset()
		for _, f := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
			{":authority", address},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
		} {
			if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
				return nil, errors.Join(err, nc.Close())
			}
		}
		*list = bytes.Clone(fields.Bytes())
	}
	_, err = io.WriteString(c.out, http2.ClientPreface)
	err = errors.Join(err, c.frames.WriteSettings(), c.frames.WriteWindowUpdate(0, 1<<30), c.out.Flush())
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return c, nil
}

// send writes a request that began at a moment. The caller holds mu.
func (c *conn) send(began time.Time) error {
	all, err := questions()
	if err != nil {
		return err
	}
	c.user = (c.user + 1) % users
	c.began[c.stream] = began
	err = errors.Join(
		c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.fields, EndHeaders: true}),
		c.frames.WriteData(c.stream, true, all[c.user]),
	)
	c.stream += 2
	c.fields = c.later
	return err
}

// closed sends as many requests as streams at once, until end, and waits for the answers.
func (c *conn) closed(end time.Time) error {
	c.mu.Lock()
	for range streams {
		if err := c.send(time.Now()); err != nil {
			c.mu.Unlock()
			return err
		}
	}
	err := c.out.Flush()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.receive(func() error {
		now := time.Now()
		if now.After(end) {
			c.ended = true
			return nil
		}
		return c.send(now)
	})
}

// open sends a request each interval, from due to end, and waits for the answers.
func (c *conn) open(due, end time.Time, interval time.Duration) error {
	sent, places, over := make(chan error, 1), make(chan struct{}, mostStreams), make(chan struct{})
	go func() {
		sent <- func() error {
			for ; due.Before(end); due = due.Add(interval) {
				began := due
				if early := time.Until(due); early > 0 {
					time.Sleep(early)
					began = time.Now() // waking up late is this program's own doing
				}
				select {
				case places <- struct{}{}:
				case <-over:
					return nil
				}
				c.mu.Lock()
				c.ended = !due.Add(interval).Before(end)
				err := errors.Join(c.send(began), c.out.Flush())
				c.mu.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	err := c.receive(func() error {
		<-places
		return nil
	})
	close(over)
	return errors.Join(err, <-sent)
}

// receive reads answers until no request follows and all are answered. It calls then behind each.
func (c *conn) receive(then func() error) error {
	answered := make(map[uint32]bool)
	for {
		f, err := c.frames.ReadFrame()
		if err != nil {
			return err
		}
		c.mu.Lock()
		over, err := c.one(f, answered, then)
		if c.in.Buffered() == 0 {
			err = errors.Join(err, c.out.Flush())
		}
		c.mu.Unlock()
		if over || err != nil {
			return err
		}
	}
}

// one handles a frame.
func (c *conn) one(f http2.Frame, answered map[uint32]bool, then func() error) (over bool, err error) {
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			err = c.frames.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame, *http2.RSTStreamFrame:
		err = fmt.Errorf("the server sent %v", f)
	case *http2.DataFrame:
		if !bytes.HasPrefix(f.Data()[5:], []byte{8, byte(pb.RateLimitResponse_OK)}) {
			err = fmt.Errorf("the server answered %q", f.Data())
		}
		answered[id] = true
	case *http2.HeadersFrame:
		if !f.StreamEnded() {
			return false, nil
		}
		if !answered[id] {
			return false, errors.New("the server answered an error")
		}
		delete(answered, id)
		c.took = append(c.took, time.Since(c.began[id]))
		delete(c.began, id)
		err = then()
		over = c.ended && len(c.began) == 0
	}
	return over, err
}
