// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package certificate serves TLS with a certificate from files that may be replaced at any
// time, as by ACME clients and Kubernetes. The next handshake uses the new pair, without a
// restart and without a watching goroutine.
package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
)

// maxFile is the largest accepted file, in bytes.
const maxFile = 1 << 20

// Options are the options of a [Pair]. The zero value works.
type Options struct {
	// ClientCA is a file, in PEM, of certificates of the authorities that sign clients'
	// certificates. A client must have a certificate issued for clients by one of them, or be
	// one of them. Empty: clients are not asked for a certificate. A new file takes effect
	// with the next handshake, also for resumed sessions; open connections stay.
	ClientCA string
	// ClientOptional admits clients without a certificate. A certificate that cannot be
	// verified is still refused.
	ClientOptional bool
	// Protocols are those of ALPN, in order of preference. None: clients may use any.
	Protocols []string
	// OnChange, if not nil, is called with nil when a new pair becomes active, and with the
	// fault of one that cannot, once for each content of the files. A handshake calls it, so
	// it should be quick.
	OnChange func(error)
}

// Pair is a certificate and its key in two PEM files, with the authorities that verify clients
// if they are asked. It is safe for concurrent use.
type Pair struct {
	certFile, keyFile string
	opts              Options
	every             time.Duration // the least time between two reads of the files by handshakes

	current atomic.Pointer[served]
	due     atomic.Pointer[time.Time] // time of the next read

	mu   sync.Mutex // held while the files are read
	seen contents   // the content last read
	err  error      // its fault
}

// served is made from one content of the files.
type served struct {
	pair    tls.Certificate
	clients *x509.CertPool // nil if clients are not asked
	config  *tls.Config
}

// contents are the contents of the files.
type contents struct{ cert, key, clients string }

// Load reads the files and returns the Pair, or their faults. The certificate's file holds the
// chain, leaf first.
func Load(certFile, keyFile string, o Options) (*Pair, error) {
	p := &Pair{certFile: certFile, keyFile: keyFile, opts: o, every: 2 * time.Second}
	p.opts.OnChange = nil // the first pair is no change
	if err := p.Reload(); err != nil {
		return nil, err
	}
	p.opts.OnChange = o.OnChange
	return p, nil
}

// Config returns a new configuration that serves the Pair with TLS 1.2 or later, and the
// protocols of the options.
func (p *Pair) Config() *tls.Config {
	c := p.plain()
	if p.opts.ClientCA != "" {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.fresh().config, nil }
	}
	return c
}

// plain returns a configuration that does not ask clients for a certificate.
func (p *Pair) plain() *tls.Config {
	return &tls.Config{
		GetCertificate: p.GetCertificate,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     p.opts.Protocols,
	}
}

// GetCertificate is for [tls.Config]. The first handshake 2 s after the last reads the files
// before it continues; concurrent ones get the current pair.
func (p *Pair) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &p.fresh().pair, nil
}

// fresh returns the active pair, after reading the files if they are due.
func (p *Pair) fresh() *served {
	if due := p.due.Load(); !time.Now().Before(*due) && p.mu.TryLock() {
		defer p.mu.Unlock()
		_ = p.look() // OnChange and Err report it
	}
	return p.current.Load()
}

// Reload reads the files now. If they hold no usable pair, the active one stays, and the error
// says why.
func (p *Pair) Reload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look()
}

// Err returns why the files' content, when last read, is not the active pair, or nil.
func (p *Pair) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// NotAfter returns when the active certificate expires.
func (p *Pair) NotAfter() time.Time { return p.current.Load().pair.Leaf.NotAfter }

func (p *Pair) look() error {
	now := time.Now()
	due := now.Add(p.every)
	p.due.Store(&due)
	next, err := p.read()
	if err != nil {
		// A file that is being replaced may be missing for a moment. Its old content is
		// forgotten so that its return is noticed.
		said := p.err != nil && p.err.Error() == err.Error()
		p.seen, p.err = contents{}, err
		p.report(err, said)
		return err
	}
	if next == p.seen {
		return p.err
	}
	p.seen = next
	p.err = p.use(&next, now)
	p.report(p.err, false)
	return p.err
}

// read reads all files.
func (p *Pair) read() (c contents, err error) {
	var cerr, kerr error
	c.cert, cerr = read(p.certFile)
	c.key, kerr = read(p.keyFile)
	if p.opts.ClientCA != "" {
		c.clients, err = read(p.opts.ClientCA)
	}
	return c, errors.Join(cerr, kerr, err)
}

// use activates the content of the files unless it is worse than the active one.
func (p *Pair) use(c *contents, now time.Time) (err error) {
	next := new(served)
	if next.pair, err = tls.X509KeyPair([]byte(c.cert), []byte(c.key)); err != nil {
		return fmt.Errorf("certificate: %s and %s cannot be used: %w", p.certFile, p.keyFile, err)
	}
	if old := p.current.Load(); old != nil && now.After(next.pair.Leaf.NotAfter) && now.Before(old.pair.Leaf.NotAfter) {
		return fmt.Errorf("certificate: %s expired on %s; the previous one stays active", p.certFile, next.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if p.opts.ClientCA != "" {
		if next.clients, err = parsePool([]byte(c.clients)); err != nil {
			return fmt.Errorf("certificate: %s: %w", p.opts.ClientCA, err)
		}
		next.config = p.verifying(next.clients)
	}
	p.current.Store(next)
	return nil
}

func (p *Pair) report(err error, said bool) {
	if p.opts.OnChange != nil && !said {
		p.opts.OnChange(err)
	}
}

func read(name string) (string, error) {
	content, _, err := regular.Read(name, maxFile+1)
	if err != nil {
		return "", fmt.Errorf("certificate: %w", err)
	}
	if len(content) > maxFile {
		return "", fmt.Errorf("certificate: %s has more than %d bytes; it should hold a PEM block or a few", name, maxFile)
	}
	return string(content), nil
}

// CheckClientCA returns why a file cannot be an [Options.ClientCA], or nil.
func CheckClientCA(name string) error {
	content, err := read(name)
	if err != nil {
		return err
	}
	if _, err = parsePool([]byte(content)); err != nil {
		return fmt.Errorf("certificate: %s: %w", name, err)
	}
	return nil
}

// parsePool reads certificates in PEM, which must all be valid: without one of them its
// clients would be refused silently.
func parsePool(content []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for {
		block, rest := pem.Decode(content)
		if block == nil {
			break
		}
		content, n = rest, n+1
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %s; use certificates only, of the authorities that sign clients' certificates", n, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", n, err)
		}
		pool.AddCert(cert)
	}
	switch {
	case bytes.Contains(content, []byte("-----BEGIN")):
		return nil, fmt.Errorf("block %d is not PEM", n+1)
	case n == 0:
		return nil, errors.New("holds no certificate in PEM")
	}
	return pool, nil
}

// verifying returns a configuration that asks clients for a certificate. Clients with a
// resumed session, which may have begun under another file, are verified again.
func (p *Pair) verifying(clients *x509.CertPool) *tls.Config {
	auth := tls.RequireAndVerifyClientCert
	if p.opts.ClientOptional {
		auth = tls.VerifyClientCertIfGiven
	}
	c := p.plain()
	c.ClientAuth, c.ClientCAs = auth, clients
	return c
}
