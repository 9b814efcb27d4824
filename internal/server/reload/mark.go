// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"crypto/sha256"
	"fmt"
	"os"

	"github.com/sluicegate/sluice/internal/regular"
)

// mark shows whether a file may have changed: what its folder says of it, and
// what it holds. One without info could not be read.
type mark struct {
	info os.FileInfo
	sum  [sha256.Size]byte
}

// holds reports whether a file's folder says that it is as it was.
func (m *mark) holds(name string) bool {
	info, err := os.Stat(name)
	return err == nil && m.info != nil && os.SameFile(info, m.info) && info.ModTime().Equal(m.info.ModTime()) && info.Size() == m.info.Size()
}

// read returns what a file holds, up to so many bytes, and what to know it by.
func read(name string, most int64) (data []byte, m mark, err error) {
	data, info, err := regular.Read(name, most)
	if err != nil {
		return nil, m, fmt.Errorf("reload: %w", err)
	}
	return data, mark{info: info, sum: sha256.Sum256(data)}, nil
}

// mostNamed is how much of a file that another names is looked at: more than a
// key, a token or a certificate has.
const mostNamed = 1 << 20 // bytes

// named is a file that another names, as it was when last looked at.
type named struct {
	name string
	mark
}

// changed reports whether the file holds something else than when it was last
// looked at, and remembers what it holds now.
func (n *named) changed() bool {
	if n.holds(n.name) {
		return false
	}
	before := n.mark
	_, n.mark, _ = read(n.name, mostNamed) // the reader says why it cannot be read
	return (before.info == nil) != (n.info == nil) || before.sum != n.sum
}
