// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/tls"
	"slices"

	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/internal/wire"
)

// Certificate is a name in the client's verified certificate: uri, as of SPIFFE, dns, cn,
// the common name, or subject, the whole subject as in RFC 2253. A request whose certificate
// lacks the name, or that has no certificate, lacks the part. A certificate with several
// names of that kind is refused, as a client could choose their order. A client has as many
// budgets as it has certificates of different names.
//
// Only attributes with a method Certificate(name string) (string, error) have the part, such
// as those of a [Request] and those of packages httplimit and grpclimit: see [VerifiedName].
func Certificate(name string) Part { return Part{Source: source.Certificate, Name: name} }

// certificateNames are the names that [Certificate] takes.
var certificateNames = []string{"uri", "dns", "cn", "subject"}

const certificateForms = "cert.uri, cert.dns, cert.cn or cert.subject"

// VerifiedName returns the value of [Certificate] for a connection over TLS, "" if the
// server has verified no certificate of its client; t may be nil. The error is for
// a [PartError].
func VerifiedName(t *tls.ConnectionState, name string) (string, error) {
	return wire.VerifiedName(t, name)
}

// certified are Attributes with certificates.
type certified interface {
	Certificate(name string) (string, error)
}

func isCertificateName(name string) bool { return slices.Contains(certificateNames, name) }
