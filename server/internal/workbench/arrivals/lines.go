// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	blockBytes = 256 << 10
	mostLine   = 1 << 20 // bytes of a line; the rest is cut
)

// lines reads a file in blocks of lines.
type lines struct {
	*bufio.Reader
	file        io.Closer
	compression string
}

// openLines opens a file; "-" is stdin. Read counts the bytes that are read from it.
func openLines(name string, stdin io.Reader, read *atomic.Int64) (*lines, error) {
	l := &lines{file: io.NopCloser(stdin)}
	from := stdin
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, errors.Join(fmt.Errorf("%s is a folder; name its files", name), f.Close())
		}
		from, l.file = f, f
	}
	in := bufio.NewReaderSize(counter{from, read}, 64<<10)
	head, _ := in.Peek(4) // a shorter file is not compressed
	from = in
	var err error
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		l.compression = ", gzip"
		from, err = gzip.NewReader(in)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		l.compression = ", zstd"
		from, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1)) // which has no goroutine to end
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), l.file.Close())
	}
	l.Reader = bufio.NewReaderSize(from, mostLine)
	if mark, _ := l.Peek(3); string(mark) == "\xef\xbb\xbf" { // the byte order mark
		_, err = l.Discard(3)
	}
	return l, err
}

// counter counts bytes.
type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// next returns the next block of lines. With the last one comes io.EOF, or the error of the
// file.
func (l *lines) next() (string, error) {
	var block strings.Builder
	for block.Grow(blockBytes + blockBytes/8); block.Len() < blockBytes; {
		line, err := l.ReadSlice('\n')
		block.Write(line)
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of the line is cut
			if _, err = l.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
				block.WriteByte('\n')
			}
		}
		if err != nil {
			return block.String(), err
		}
	}
	return block.String(), nil
}
