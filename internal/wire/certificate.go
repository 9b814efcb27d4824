// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"strings"
)

// VerifiedName returns a name in the certificate of a connection's client, "" if the server
// has verified none; t may be nil. The name is uri, dns, cn or subject.
func VerifiedName(t *tls.ConnectionState, name string) (string, error) {
	if t == nil || len(t.VerifiedChains) == 0 || len(t.VerifiedChains[0]) == 0 {
		return "", nil
	}
	return certificateName(t.VerifiedChains[0][0], name)
}

// certificateName returns the value of a name in a verified certificate.
func certificateName(c *x509.Certificate, name string) (string, error) {
	var values []string
	switch name {
	case "uri":
		for _, u := range c.URIs {
			values = append(values, u.String())
		}
	case "dns":
		for _, host := range c.DNSNames {
			values = append(values, strings.ToLower(host))
		}
	case "cn":
		for _, a := range c.Subject.Names {
			if text, ok := a.Value.(string); ok && a.Type.Equal(commonName) {
				values = append(values, text)
			}
		}
	case "subject":
		// Name.String sorts known attributes, so that two subjects could become one.
		var subject pkix.RDNSequence
		if rest, err := asn1.Unmarshal(c.RawSubject, &subject); err != nil || len(rest) > 0 {
			return "", errors.New("cannot be read")
		}
		return subject.String(), nil
	}
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", errors.New("is in the certificate more than once; use one that has a single one")
	}
}

var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}
