// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/redisstore/redisurl"
)

// longLoading is how long a server may answer that it loads its data before its address is
// resolved again.
const longLoading = time.Second

// Answered reports whether an error is a server's reply, such as NOPERM, and not the
// network's.
func Answered(err error) bool {
	_, ok := errors.AsType[*rueidis.RedisError](err)
	return ok
}

// Temporary reports whether an error of connecting may end by itself: the servers are
// unreachable or not ready. A refused password, a missing file and a server that is too old
// are not temporary.
func Temporary(err error) bool {
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return takesNoWrites(err) || reply.IsClusterDown() || reply.IsTryAgain() || strings.Contains(reply.Error(), "max number of clients")
	}
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)), errors.As(err, new(tls.AlertError)):
		return false
	case errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, rueidis.ErrClosing), errors.Is(err, rueidis.ErrNoSlot):
		return true
	}
	return false
}

// hint returns err with a change of the URL if the fault may be TLS. A server without TLS
// waits for the end of a line that never comes, or answers in another protocol; one with TLS
// closes a connection that begins without it.
func hint(u *redisurl.URL, err error) error {
	scheme, _, _ := strings.Cut(u.String(), "://")
	silent := errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(tls.RecordHeaderError))
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w; name the file of its authority, or of a certificate that it signed itself, by ca_file", err)
	case u.TLS && silent:
		return fmt.Errorf("%w; if the server speaks no TLS at this port, begin the URL with %s://", err, strings.Replace(scheme, "rediss", "redis", 1))
	case !u.TLS && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return fmt.Errorf("%w; if the server speaks TLS at this port, begin the URL with %s://", err, strings.Replace(scheme, "redis", "rediss", 1))
	}
	return err
}

// noWrites are the prefixes of replies of servers that take no writes.
var noWrites = []string{"READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF"}

// takesNoWrites reports whether an error is the reply of a server that takes no writes: a
// replica, a primary without the replicas or the disk that it needs, or a server that loads
// its data. After a failover its address may lead to another server, while its connections
// stay.
func takesNoWrites(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && (reply.IsLoading() || slices.ContainsFunc(noWrites, func(word string) bool { return strings.HasPrefix(reply.Error(), word) }))
}

// loading reports whether an error is the reply of a server that loads its data.
func loading(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && reply.IsLoading()
}
