// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
)

const (
	// mostVersion is above all versions that a store gives out.
	mostVersion = 1 << 49
	// versionStep bounds a version: it is at most 70 years above the store's time in ms.
	// The largest one leaves room for more, as time goes on. A server whose clock starts in
	// 1970 can read versions of the present.
	versionStep = 1 << 41
	// idLength is the length of a [Conn.RecordID].
	idLength = 24
)

// Version numbers a change of what nodes share. The store counts: each version is above
// all before it and at least the store's time in ms. The zero value stands for no record.
type Version int64

// String returns the number, and nothing for the zero value.
func (v Version) String() string {
	if v == 0 {
		return ""
	}
	return strconv.FormatInt(int64(v), 10)
}

// ParseVersion reads the text that String returns.
func ParseVersion(text string) (Version, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > mostVersion {
		return 0, fmt.Errorf("fleet: %.40q is no version; write one as it was shown", text)
	}
	return Version(n), nil
}

// RecordID returns the field of the hash that keeps the record of a name. With a secret
// the field does not show the name to a reader who has no secret.
func (c *Conn) RecordID(name string) string {
	sum := sha256.Sum256([]byte(name))
	if c.hashes != nil {
		mac := hmac.New(sha256.New, c.hashes)
		mac.Write([]byte(name)) // never fails
		sum = [sha256.Size]byte(mac.Sum(nil))
	}
	return base64.RawURLEncoding.EncodeToString(sum[:idLength/4*3])
}
