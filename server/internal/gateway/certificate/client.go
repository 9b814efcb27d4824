// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

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
