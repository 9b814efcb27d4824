// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// answered reports whether an error is a server's reply, such as NOPERM.
func answered(err error) bool {
	_, ok := errors.AsType[*rueidis.RedisError](err)
	return ok
}

// noWrites are the prefixes of replies of servers that take no writes.
var noWrites = []string{"READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF"}

// takesNoWrites reports whether an error is the reply of a server that takes no writes: a
// replica, a primary without the replicas or the disk that it needs, or a server that loads
// its data.
func takesNoWrites(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && (reply.IsLoading() || slices.ContainsFunc(noWrites, func(word string) bool { return strings.HasPrefix(reply.Error(), word) }))
}

// loading reports whether an error is the reply of a server that loads its data.
func loading(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && reply.IsLoading()
}

// lasting reports whether an error is the reply of a server that is ready, so that the fault
// does not end by itself.
func lasting(err error) bool {
	reply, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && !takesNoWrites(err) && !reply.IsClusterDown() && !reply.IsTryAgain() && !strings.Contains(reply.Error(), "max number of clients")
}
