// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/sluicegate/sluice/internal/wire"

// HostOf returns the host of a Host field, or of a URL's authority, in the form in which
// [Attributes] return it and rules compare it: in lower case, without a port and without
// trailing dots; an IPv6 address is in brackets and in its shortest form. Text after the first
// colon is ignored.
func HostOf(authority string) string { return wire.Host(authority) }
