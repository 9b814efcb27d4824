// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package certificate

import "time"

// LoadOften is Load of a Pair whose files each handshake reads.
func LoadOften(certFile, keyFile string, o Options) (*Pair, error) {
	p, err := Load(certFile, keyFile, o)
	if err == nil {
		p.every = time.Nanosecond
		p.due.Store(new(time.Time))
	}
	return p, err
}
