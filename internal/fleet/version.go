// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// mostCounter is beyond what a store ever counts to: a version above it was made up.
	mostCounter = 1 << 49
	// counterStep is how far a counter may be above the store's time in ms, 70 years: so
	// that the largest one that is trusted never ends what comes after it, and a server
	// whose clock begins in 1970 is trusted, too.
	counterStep = 1 << 41
	// idLength is that of what [Conn.RecordID] returns.
	idLength = 24
)

// trusted reports whether a counter may be what a store has counted to.
func trusted(counter int64, now time.Time) bool { return counter <= now.UnixMilli()+counterStep }

// Version orders what nodes write of one record: the counter is the store's, and the
// writer decides where a failover has counted twice. The zero value is older than all.
type Version struct {
	Counter int64
	Writer  string // a node's ID
}

// Compare is as [cmp.Compare]: the larger version is right.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Counter, w.Counter), strings.Compare(v.Writer, w.Writer))
}

// String returns "12.WRITER", and nothing for the zero value.
func (v Version) String() string {
	if v == (Version{}) {
		return ""
	}
	return strconv.FormatInt(v.Counter, 10) + "." + v.Writer
}

// ParseVersion reads what String has written.
func ParseVersion(text string) (v Version, err error) {
	if text == "" {
		return v, nil
	}
	counter, writer, _ := strings.Cut(text, ".")
	return versionOf(counter, writer)
}

func versionOf(counter, writer string) (v Version, err error) {
	v.Counter, err = strconv.ParseInt(counter, 10, 64)
	if err != nil || v.Counter < 1 || v.Counter > mostCounter || !writes(writer) {
		return Version{}, fmt.Errorf("fleet: %.40q is no version; write one as it was shown", counter+"."+writer)
	}
	v.Writer = writer
	return v, nil
}

// writes reports whether a text may be a node's ID.
func writes(id string) bool {
	return id != "" && len(id) <= 32 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// kept returns how a version is written in the store.
func (v Version) kept() string {
	if v == (Version{}) {
		return ""
	}
	return strconv.FormatInt(v.Counter, 10) + " " + v.Writer
}

// RecordID returns the field in which a record of a name is kept: it does not show the
// name to who has no secret, if there is one.
func (c *Conn) RecordID(name string) string {
	sum := sha256.Sum256([]byte(name))
	if c.hashes != nil {
		mac := hmac.New(sha256.New, c.hashes)
		mac.Write([]byte(name)) // never fails
		sum = [sha256.Size]byte(mac.Sum(nil))
	}
	return base64.RawURLEncoding.EncodeToString(sum[:idLength/4*3])
}
