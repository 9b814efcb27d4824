// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"github.com/sluicegate/sluice/internal/regular"
)

// mostNamed is how much of a file that a configuration names is looked at: more
// than a key, a token or a certificate has.
const mostNamed = 1 << 20 // bytes

// named is a file that a configuration names, as it was when last looked at.
type named struct {
	name string
	mark // without an id: it could not be read
}

// look returns the files as they are.
func look(names []string) []named {
	all := make([]named, len(names))
	for i, name := range names {
		all[i].name = name
		all[i].changed()
	}
	return all
}

// changed reports whether the file holds something else than when it was last
// looked at, and remembers what it holds now.
func (n *named) changed() bool {
	info, err := os.Stat(n.name)
	if err == nil && n.id != nil && os.SameFile(info, n.id) && info.ModTime().Equal(n.modified) && info.Size() == n.size {
		return false
	}
	before := n.mark
	sum, err := sumOf(n.name)
	if err != nil { // whoever reads it says why
		n.mark = mark{}
		return before.id != nil
	}
	n.mark = mark{modified: info.ModTime(), size: info.Size(), id: info, sum: sum}
	return before.id == nil || before.sum != sum
}

func sumOf(name string) (sum [sha256.Size]byte, err error) {
	f, _, err := regular.Open(name)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, mostNamed))
	return sha256.Sum256(data), err
}
