// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"slices"
	"strings"
)

// Certificate is a name in the certificate that a client has shown and the server
// has verified: uri, as of SPIFFE, dns, cn, the common name, or subject, the whole
// subject as in RFC 2253. A request without such a certificate, or whose has no
// such name, lacks the part; one whose certificate has several of them is refused,
// as a client could have them put in any order. A client has as many budgets as
// the authority issues certificates of different names to it.
//
// Only attributes that have a method Certificate(name string) (string, error) know
// it, such as [HTTP], [Plain] and those of package grpclimit: see [VerifiedName].
func Certificate(name string) Part { return Part{Source: SourceCertificate, Name: name} }

// certificateNames are the names that [Certificate] takes.
var certificateNames = []string{"uri", "dns", "cn", "subject"}

const certificateForms = "cert.uri, cert.dns, cert.cn or cert.subject"

// VerifiedName returns what [Certificate] is of a connection over TLS, "" if the
// server has verified no certificate of its client; t may be nil. The error is for
// a [PartError].
func VerifiedName(t *tls.ConnectionState, name string) (string, error) {
	if t == nil || len(t.VerifiedChains) == 0 || len(t.VerifiedChains[0]) == 0 {
		return "", nil
	}
	return certificateName(t.VerifiedChains[0][0], name)
}

// certificateName returns what a verified certificate has under a name.
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
		// Name.String sorts what it knows, so that two subjects could be one.
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

// certified are Attributes that know of certificates.
type certified interface {
	Certificate(name string) (string, error)
}

// certificateOf returns the value of a part of [Certificate].
func certificateOf(a Attributes, name string) (string, error) {
	if c, ok := a.(certified); ok {
		return c.Certificate(name)
	}
	return "", nil
}

func isCertificateName(name string) bool { return slices.Contains(certificateNames, name) }
