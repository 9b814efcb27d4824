// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/internal/wire"
)

// Value returns a written value in the form of requests that are keyed by the part: the
// network that shares a budget with an address, a host in lower case, a method in capitals.
// A value of First names its part: "ip=192.0.2.1". The error says why no request has such a
// value.
func (p Part) Value(text string) (string, error) {
	part, err := plainPart(p)
	if err != nil {
		return "", err
	}
	return part.written(text)
}

// Key returns a key as [Matches.Key] does, by its values, and these in the form of requests. The
// error says why no request has that key.
func (l *CompiledLevel) Key(values []string) (key string, written []string, err error) {
	if len(values) != len(l.By) || len(values) == 0 {
		return "", nil, fmt.Errorf("a key of %d values; the level's key has %d: %v", len(values), len(l.By), l.By)
	}
	var faults []error
	written = slices.Clone(values)
	for i, text := range values {
		if text == "" {
			if l.Missing != Share {
				faults = append(faults, fmt.Errorf("an empty value of %v; no request has one, as it counts as missing", l.By[i]))
			}
			continue
		}
		if written[i], err = l.parts[i].written(text); err != nil {
			faults = append(faults, fmt.Errorf("%v: %w", l.By[i], err))
		}
	}
	key = encodeKey(written)
	if n := len(key); len(faults) == 0 && n > sluice.MaxKeyBytes {
		faults = append(faults, fmt.Errorf("a key of %d bytes; requests with more than %d are refused", n, sluice.MaxKeyBytes))
	}
	return key, written, errors.Join(faults...)
}

// written returns a written value in the form of requests.
func (p *keyPart) written(text string) (string, error) {
	switch {
	case len(text) > bounds.MaxValueBytes:
		return "", fmt.Errorf("%d bytes; requests with more than %d are refused", len(text), bounds.MaxValueBytes)
	case p.Source == source.IP && p.finder != nil: // without a finder the part has a fault already
		return p.group(text)
	case p.Source == source.Host, p.Source == source.Header && canonical(p.Name) == "Host":
		return hostValue(text)
	case p.Source == source.Cookie:
		return wire.PlainCookie(text), nil
	case p.Source == source.Method:
		if !wire.Token(text) {
			return "", fmt.Errorf("%q is not a method; use one such as POST", text)
		}
		return strings.ToUpper(text), nil
	case p.Source == source.First && len(p.of) > 0:
		return p.firstWritten(text)
	}
	return text, nil
}

// group returns the network that shares a budget with an address or, for a network that
// shares one, that network.
func (p *keyPart) group(text string) (string, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return p.finder.Group(addr), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return "", fmt.Errorf("%q is not an address; use one such as 192.0.2.7", text)
	}
	network = clientip.Masked(network)
	group := p.finder.Group(network.Addr())
	if group == network.String() || network.IsSingleIP() && group == network.Addr().String() {
		return group, nil
	}
	return "", fmt.Errorf("%q is not a network that shares a budget; use one such as %s", text, group)
}

func hostValue(text string) (string, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
		text = "[" + text + "]"
	}
	host := wire.Host(text)
	if host == "" || strings.HasPrefix(host, "*.") || strings.ContainsFunc(text, notInHost) {
		return "", fmt.Errorf("%q is not a host; use one such as api.example.com", text)
	}
	if strings.Contains(text[strings.LastIndexByte(text, ']')+1:], ":") {
		return "", fmt.Errorf("%q has a port, which is no part of a key; use %q", text, host)
	}
	return host, nil
}

// notInHost reports whether c occurs in no request's host: the characters that RFC 3986
// excludes.
func notInHost(c rune) bool {
	return c <= ' ' || c > '~' || strings.ContainsRune("\"#/<>?@\\^`{|}", c)
}
