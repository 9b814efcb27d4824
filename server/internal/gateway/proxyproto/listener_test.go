// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package proxyproto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/server/internal/gateway/proxyproto"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// one is a listener with one connection.
type one struct{ conn net.Conn }

func (l *one) Accept() (net.Conn, error) { return l.conn, nil }
func (l *one) Close() error              { return nil }
func (l *one) Addr() net.Addr            { return l.conn.LocalAddr() }

// from gives a pipe addresses.
type from struct {
	net.Conn
	peer string
}

func (c from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer)) }

func (c from) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:80"))
}

// accept returns both ends of a connection that comes from peer.
func accept(t *testing.T, peer string, o proxyproto.Options) (proxy, server net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	l, err := proxyproto.Listen(&one{from{b, peer}}, o)
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(a); hangUp(server) })
	return a, server
}

const sig = "\r\n\r\n\x00\r\nQUIT\n"

func v2(command, family byte, rest string) string {
	var size [2]byte
	binary.BigEndian.PutUint16(size[:], uint16(len(rest)))
	return sig + string([]byte{command, family}) + string(size[:]) + rest
}

// checksummed appends the CRC32C of the whole header, plus off.
func checksummed(rest string, off uint32) string {
	h := []byte(v2(0x21, 0x11, rest+"\x03\x00\x04\x00\x00\x00\x00"))
	sum := crc32.Checksum(h, crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(h[len(h)-4:], sum+off)
	return string(h)
}

const (
	four = "\xcb\x00\x71\x07\xc0\x00\x02\x01\x12\x67\x01\xbb" // 203.0.113.7:4711 to 192.0.2.1:443
	six  = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x12\x67\x01\xbb"
	mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xcb\x00\x71\x07" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01\x12\x67\x01\xbb"
	own = "127.0.0.9:1234 127.0.0.1:80"
	far = "203.0.113.7:4711 192.0.2.1:443"
)

var headers = []struct {
	name, header string
	want         string // remote and local address; "" if refused
}{
	{"v1 TCP4", "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", far},
	{"v1 TCP6", "PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n", "[2001:db8::1]:4711 [2001:db8::2]:443"},
	{"v1 mapped", "PROXY TCP6 ::ffff:203.0.113.7 ::ffff:192.0.2.1 4711 443\r\n", far},
	{"v1 unknown", "PROXY UNKNOWN\r\n", own},
	{"v1 unknown with more", "PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", own},
	{"v1 longest", "PROXY UNKNOWN " + strings.Repeat("f", 107-16) + "\r\n", own},
	{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("f", 108-16) + "\r\n", ""},
	{"v1 leading zero", "PROXY TCP4 203.0.113.7 192.0.2.1 0711 443\r\n", ""},
	{"v1 zero in the address", "PROXY TCP4 203.0.113.07 192.0.2.1 4711 443\r\n", ""},
	{"v1 port too high", "PROXY TCP4 203.0.113.7 192.0.2.1 4711 65536\r\n", ""},
	{"v1 signed port", "PROXY TCP4 203.0.113.7 192.0.2.1 +711 443\r\n", ""},
	{"v1 zone", "PROXY TCP6 fe80::1%eth0 2001:db8::2 4711 443\r\n", ""},
	{"v1 wrong family", "PROXY TCP4 2001:db8::1 2001:db8::2 4711 443\r\n", ""},
	{"v1 two spaces", "PROXY TCP4  203.0.113.7 192.0.2.1 4711 443\r\n", ""},
	{"v1 more words", "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443 1\r\n", ""},
	{"v1 other protocol", "PROXY UDP4 203.0.113.7 192.0.2.1 4711 443\r\n", ""},
	{"v1 lower case", "proxy TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", ""},
	{"v1 without CR", "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\n", ""},
	{"v1 nothing", "PROXY \r\n", ""},
	{"v2 TCP4", v2(0x21, 0x11, four), far},
	{"v2 TCP6", v2(0x21, 0x21, six), "[2001:db8::1]:4711 [2001:db8::2]:443"},
	{"v2 mapped", v2(0x21, 0x21, mapped), far},
	{"v2 local", v2(0x20, 0x00, ""), own},
	{"v2 local with an address", v2(0x20, 0x11, four), own},
	{"v2 local, to be skipped", v2(0x20, 0x00, "skip me"), own},
	{"v2 unspecified", v2(0x21, 0x00, ""), own},
	{"v2 unix", v2(0x21, 0x31, strings.Repeat("x", 216)), own},
	{"v2 UDP", v2(0x21, 0x12, four), own},
	{"v2 extensions", v2(0x21, 0x11, four+"\x02\x00\x03abc\x04\x00\x00"), far},
	{"v2 longest", v2(0x21, 0x11, four+"\x04\xff\xf0"+strings.Repeat("x", 0xfff0)), far},
	{"v2 checksum", checksummed(four, 0), far},
	{"v2 wrong checksum", checksummed(four, 1), ""},
	{"v2 short checksum", v2(0x21, 0x11, four+"\x03\x00\x01x"), ""},
	{"v2 extension cut off", v2(0x21, 0x11, four+"\x02\x00"), ""},
	{"v2 extension too long", v2(0x21, 0x11, four+"\x02\x00\x04abc"), ""},
	{"v2 addresses cut off", v2(0x21, 0x11, four[:11]), ""},
	{"v2 version 1", v2(0x11, 0x11, four), ""},
	{"v2 command", v2(0x22, 0x11, four), ""},
	{"v2 family", v2(0x21, 0x41, four), ""},
	{"v2 protocol", v2(0x21, 0x13, four), ""},
	{"v2 signature", sig[:11] + "\r" + "\x21\x11\x00\x0c" + four, ""},
	{"an HTTP request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"a POST", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
	{"TLS", "\x16\x03\x01\x02\x00\x01", ""},
}

// TestHeaders: a header is read alike whole or byte by byte, and no byte after it is lost.
func TestHeaders(t *testing.T) {
	for _, c := range headers {
		for _, step := range []int{1 << 20, 1, 50} {
			if step == 1 && len(c.header) > 1000 {
				continue // byte by byte adds nothing for a long one
			}
			t.Run(fmt.Sprintf("%s in steps of %d", c.name, step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					proxy, server := accept(t, "127.0.0.9:1234", proxyproto.Options{Trusted: loopback})
					const payload = "hello, world"
					go func() {
						defer hangUp(proxy)
						for b := []byte(c.header + payload); len(b) > 0; {
							n, err := proxy.Write(b[:min(step, len(b))])
							if err != nil {
								return // the server has refused the rest
							}
							b = b[n:]
						}
					}()
					got, err := io.ReadAll(server)
					addrs := server.RemoteAddr().String() + " " + server.LocalAddr().String()
					if c.want == "" {
						var refused *proxyproto.HeaderError
						if !errors.As(err, &refused) || len(got) > 0 || addrs != own {
							t.Errorf("got %q, %v from %s; want a HeaderError from %s", got, err, addrs, own)
						}
						if _, err := server.Write([]byte("x")); !errors.As(err, &refused) {
							t.Errorf("a write got %v; want a HeaderError", err)
						}
						hangUp(server)
						return
					}
					if err != nil || string(got) != payload {
						t.Errorf("got %q, %v; want %q", got, err, payload)
					}
					if addrs != c.want {
						t.Errorf("got %s; want %s", addrs, c.want)
					}
				})
			})
		}
	}
}

// TestUnlistedPeer: its bytes are passed on, and its address is its own.
func TestUnlistedPeer(t *testing.T) {
	proxy, server := accept(t, "198.51.100.9:1234", proxyproto.Options{Trusted: loopback})
	const forged = "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"
	go func() {
		defer hangUp(proxy)
		if _, err := io.WriteString(proxy, forged); err != nil {
			t.Error(err)
		}
	}()
	if got := server.RemoteAddr().String(); got != "198.51.100.9:1234" {
		t.Errorf("got the address %s; want its own", got)
	}
	if got, err := io.ReadAll(server); err != nil || string(got) != forged {
		t.Errorf("got %q, %v; want what was sent", got, err)
	}
}

// TestSlowHeader: the time for a header runs from the start, however slowly it arrives. The
// application's deadline may shorten it, but not extend it.
func TestSlowHeader(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration // the application's
		want     time.Duration
	}{
		{"none", 0, 5 * time.Second},
		{"a later deadline", time.Hour, 5 * time.Second},
		{"an earlier one", time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				proxy, server := accept(t, "127.0.0.9:1234", proxyproto.Options{Trusted: loopback})
				var dripping sync.WaitGroup
				dripping.Go(func() {
					for _, b := range []byte("PROXY TCP4 203.0.113.7") {
						time.Sleep(400 * time.Millisecond)
						if _, err := proxy.Write([]byte{b}); err != nil {
							return
						}
					}
				})
				defer dripping.Wait()
				if c.deadline > 0 {
					if err := server.SetDeadline(start.Add(c.deadline)); err != nil {
						t.Fatal(err)
					}
				}
				_, err := server.Read(make([]byte, 1))
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("got %v; want a timeout", err)
				}
				if got := time.Since(start); got != c.want {
					t.Errorf("it took %v; want %v", got, c.want)
				}
				hangUp(server)
				hangUp(proxy)
			})
		})
	}
}

// TestDeadlineAfterHeader: after the header the application's own deadline applies.
func TestDeadlineAfterHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		proxy, server := accept(t, "127.0.0.9:1234", proxyproto.Options{Trusted: loopback})
		if err := server.SetReadDeadline(start.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() {
			if _, err := io.WriteString(proxy, "PROXY UNKNOWN\r\n"); err != nil {
				t.Error(err)
			}
		}()
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v; want a timeout", err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("it took %v; want 1m", got)
		}
	})
}

// TestServer: behind a listed proxy the handler sees the client's address; a forged header of
// another peer is a bad request.
func TestServer(t *testing.T) {
	for _, c := range []struct {
		name    string
		trusted string
		want    string
	}{
		{"listed", "127.0.0.0/8", "203.0.113.7:4711"},
		{"unlisted", "192.0.2.0/24", "400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tcp, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l, err := proxyproto.Listen(tcp, proxyproto.Options{Trusted: []netip.Prefix{netip.MustParsePrefix(c.trusted)}})
			if err != nil {
				t.Fatal(err)
			}
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.WriteString(w, r.RemoteAddr); err != nil {
					t.Error(err)
				}
			})}
			done := make(chan error, 1)
			go func() { done <- srv.Serve(l) }()
			defer func() {
				hangUp(srv)
				if err := <-done; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			}()
			conn, err := net.Dial("tcp", tcp.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer hangUp(conn)
			if _, err := io.WriteString(conn, "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\nGET / HTTP/1.0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Contains(got, []byte(c.want)) {
				t.Errorf("got %q, %v; want %s in it", got, err, c.want)
			}
		})
	}
}

// TestOnError: a refused header is reported once, and a connection that ends before its first
// byte is not.
func TestOnError(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		hangsUp    bool
		want       string // "" if nothing is reported
	}{
		{"no header", "GET / HTTP/1.1\r\n", false, "does not begin with a PROXY protocol header"},
		{"cut off", "PROXY TCP4", true, "it ends after 10 bytes"},
		{"too late", "", false, "no header came"},
		{"nothing", "", true, ""},
		{"a header", "PROXY UNKNOWN\r\n", true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []string
				proxy, server := accept(t, "127.0.0.9:1234", proxyproto.Options{Trusted: loopback, OnError: func(err *proxyproto.HeaderError) {
					reported = append(reported, err.Error())
				}})
				go func() {
					_, _ = io.WriteString(proxy, c.sent) // the server may refuse it
					if c.hangsUp {
						hangUp(proxy)
					}
				}()
				for range 2 {
					_ = server.RemoteAddr()
					_, _ = server.Read(make([]byte, 1))
				}
				hangUp(server)
				if c.want == "" && len(reported) == 0 {
					return
				}
				if len(reported) != 1 || c.want == "" || !strings.Contains(reported[0], c.want) {
					t.Errorf("reported %q, want %q once", reported, c.want)
				}
			})
		})
	}
}

func TestListenRefuses(t *testing.T) {
	_, err := proxyproto.Listen(nil, proxyproto.Options{})
	if err == nil || !strings.Contains(err.Error(), "Trusted is empty") {
		t.Errorf("got %v; want a fault of Trusted", err)
	}
}

// FuzzHeader: no bytes make a connection panic or hang, and the bytes after a header are read
// unchanged.
func FuzzHeader(f *testing.F) {
	for _, c := range headers {
		f.Add([]byte(c.header))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		proxy, server := accept(t, "127.0.0.9:1234", proxyproto.Options{Trusted: loopback})
		go func() {
			_, _ = proxy.Write(sent) // the server may refuse it
			hangUp(proxy)
		}()
		got, err := io.ReadAll(server)
		if err == nil && !bytes.HasSuffix(sent, got) {
			t.Errorf("got %q of %q", got, sent)
		}
		if err == nil && len(got) == len(sent) {
			t.Errorf("%q was taken without a header", sent)
		}
		hangUp(server)
	})
}

// hangUp closes c, which may be closed already.
func hangUp(c io.Closer) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		panic(err)
	}
}
