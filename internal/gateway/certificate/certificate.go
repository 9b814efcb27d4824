// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package certificate serves TLS with a certificate from files that may be
// replaced at any time, as ACME clients and Kubernetes do: the new pair serves
// the next handshake, without a restart and without a goroutine that watches.
package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/regular"
)

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 20

// Options say how a [Pair] follows its files. The zero value works.
type Options struct {
	// Every is how long a pair serves before a handshake looks at the files
	// again. Zero means 2 s.
	Every time.Duration
	// ClientCA is a file of the certificates, in PEM, of the authorities that sign clients' certificates: a
	// client must have a certificate that one of them has issued for clients, or is
	// one of them itself. Empty: clients are not asked for a certificate. A new file
	// takes effect with the next handshake, also for clients that resume a session;
	// connections that are open stay.
	ClientCA string
	// ClientOptional lets clients in that have no certificate. One that cannot be
	// verified is refused all the same.
	ClientOptional bool
	// OnChange, if not nil, is called with a nil error when a new pair serves
	// and with the fault of one that does not, once for each content of the
	// files. It is called by a handshake and should be quick.
	OnChange func(error)
}

// Pair is a certificate and its key, in two files of PEM, and whom clients are
// verified by, if that is asked. It is safe for concurrent use.
type Pair struct {
	certFile, keyFile string
	opts              Options

	current atomic.Pointer[served]
	due     atomic.Pointer[time.Time] // when to look next

	mu   sync.Mutex // held while the files are read
	seen contents   // what was looked at last
	err  error      // what was wrong with it
}

// served is what one content of the files makes.
type served struct {
	pair    tls.Certificate
	clients *x509.CertPool // nil if clients are not asked
	config  *tls.Config
}

// contents are those of the files.
type contents struct{ cert, key, clients []byte }

func (c *contents) equal(o *contents) bool {
	return bytes.Equal(c.cert, o.cert) && bytes.Equal(c.key, o.key) && bytes.Equal(c.clients, o.clients)
}

// Load reads the files and returns the Pair, or what is wrong with them. The
// file of the certificate holds the chain, leaf first.
func Load(certFile, keyFile string, o Options) (*Pair, error) {
	if o.Every < 0 {
		return nil, fmt.Errorf("certificate: Every: %v is negative; leave it 0 for 2s", o.Every)
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	p := &Pair{certFile: certFile, keyFile: keyFile, opts: o}
	p.opts.OnChange = nil // the first pair is no change
	if err := p.Reload(); err != nil {
		return nil, err
	}
	p.opts.OnChange = o.OnChange
	return p, nil
}

// Config returns a new configuration that serves the Pair from TLS 1.2 on, with
// HTTP/2 and HTTP/1.1.
func (p *Pair) Config() *tls.Config {
	c := p.plain()
	if p.opts.ClientCA != "" {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.fresh().config, nil }
	}
	return c
}

// plain returns a configuration in which clients are not asked.
func (p *Pair) plain() *tls.Config {
	return &tls.Config{
		GetCertificate: p.GetCertificate,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}

// GetCertificate is for [tls.Config]. A handshake that finds the time come looks
// at the files first; those that come meanwhile get the pair that is there.
func (p *Pair) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &p.fresh().pair, nil
}

// fresh returns what serves, once the files were looked at if it is time.
func (p *Pair) fresh() *served {
	if due := p.due.Load(); !time.Now().Before(*due) && p.mu.TryLock() {
		defer p.mu.Unlock()
		_ = p.look() // OnChange has been reported, and Err says it
	}
	return p.current.Load()
}

// Reload looks at the files now. If they hold no good pair, the one that serves
// goes on serving, and the error says why.
func (p *Pair) Reload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look()
}

// Err returns why the files do not hold what serves, or nil if they do, as of
// when they were looked at last.
func (p *Pair) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// NotAfter returns when the certificate that serves expires.
func (p *Pair) NotAfter() time.Time { return p.current.Load().pair.Leaf.NotAfter }

func (p *Pair) look() error {
	now := time.Now()
	due := now.Add(p.opts.Every)
	p.due.Store(&due)
	next, err := p.read()
	if err != nil {
		// A file that is being replaced may be away for a moment. What it held
		// is forgotten, so that its return is seen.
		said := p.err != nil && p.err.Error() == err.Error()
		p.seen, p.err = contents{}, err
		p.report(err, said)
		return err
	}
	if next.equal(&p.seen) {
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

// use makes what the files hold the current one unless it is worse.
func (p *Pair) use(c *contents, now time.Time) (err error) {
	next := new(served)
	if next.pair, err = tls.X509KeyPair(c.cert, c.key); err != nil {
		return fmt.Errorf("certificate: %s and %s cannot be used: %w", p.certFile, p.keyFile, err)
	}
	if old := p.current.Load(); old != nil && now.After(next.pair.Leaf.NotAfter) && now.Before(old.pair.Leaf.NotAfter) {
		return fmt.Errorf("certificate: %s expired on %s; the one before it goes on serving", p.certFile, next.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if p.opts.ClientCA != "" {
		if next.clients, err = parsePool(c.clients); err != nil {
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

func read(name string) (content []byte, err error) {
	content, _, err = regular.Read(name, maxFile+1)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("certificate: %s has more than %d bytes; it should hold a PEM block or a few", name, maxFile)
	}
	return content, nil
}
