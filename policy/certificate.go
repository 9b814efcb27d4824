// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/tls"
	"slices"

	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/internal/wire"
)

// Certificate is a name in the certificate that a client has shown and the server
// has verified: uri, as of SPIFFE, dns, cn, the common name, or subject, the whole
// subject as in RFC 2253. A request without such a certificate, or whose has no
// such name, lacks the part; one whose certificate has several of them is refused,
// as a client could have them put in any order. A client has as many budgets as
// the authority issues certificates of different names to it.
//
// Only attributes that have a method Certificate(name string) (string, error) know
// it, such as [StaticAttributes] and those of packages httplimit and grpclimit: see [VerifiedName].
func Certificate(name string) Part { return Part{Source: source.Certificate, Name: name} }

// certificateNames are the names that [Certificate] takes.
var certificateNames = []string{"uri", "dns", "cn", "subject"}

const certificateForms = "cert.uri, cert.dns, cert.cn or cert.subject"

// VerifiedName returns what [Certificate] is of a connection over TLS, "" if the
// server has verified no certificate of its client; t may be nil. The error is for
// a [PartError].
func VerifiedName(t *tls.ConnectionState, name string) (string, error) {
	return wire.VerifiedName(t, name)
}

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
