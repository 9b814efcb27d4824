// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package reload

import (
	"crypto/sha256"
	"fmt"
	"os"

	"github.com/sluicegate/sluice/internal/regular"
)

// mark identifies a content of a file, by its metadata and a hash. A mark without info is of a
// file that could not be read.
type mark struct {
	info os.FileInfo
	sum  [sha256.Size]byte
}

// holds reports whether the file's metadata is unchanged.
func (m *mark) holds(name string) bool {
	info, err := os.Stat(name)
	return err == nil && m.info != nil && os.SameFile(info, m.info) && info.ModTime().Equal(m.info.ModTime()) && info.Size() == m.info.Size()
}

// read returns the content of a file, up to most bytes, and its mark.
func read(name string, most int64) (data []byte, m mark, err error) {
	data, info, err := regular.Read(name, most)
	if err != nil {
		return nil, m, fmt.Errorf("reload: %w", err)
	}
	return data, mark{info: info, sum: sha256.Sum256(data)}, nil
}

// mostNamed is the largest part read of a named file: more than a key, a token or a
// certificate has.
const mostNamed = 1 << 20 // bytes

// named is a file named by another one, as last read.
type named struct {
	name string
	mark
}

// changed reports whether the file's content has changed since the last call.
func (n *named) changed() bool {
	if n.holds(n.name) {
		return false
	}
	before := n.mark
	_, n.mark, _ = read(n.name, mostNamed) // Load returns why it cannot be read
	return (before.info == nil) != (n.info == nil) || before.sum != n.sum
}
