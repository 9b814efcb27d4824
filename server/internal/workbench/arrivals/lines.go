// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	blockBytes = 256 << 10 // read at once
	mostLine   = 1 << 20   // bytes of a line; a longer one is broken
)

// lines reads a file in blocks of whole lines.
type lines struct {
	compression string // "gzip", "zstd" or ""
	from        io.Reader
	close       func()
	buf         []byte
	n           int  // bytes in buf
	ended       bool // there is no more
	started     bool
	skips       bool // the rest of a line that is too long
	fault       error
}

// openLines opens a file; "-" is stdin. Read counts the bytes that are read from it.
func openLines(name string, stdin io.Reader, read *atomic.Int64) (*lines, error) {
	l := &lines{close: func() {}, buf: make([]byte, blockBytes)}
	file := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close() // nothing was read
			return nil, fmt.Errorf("%s is a folder; name its files", name)
		}
		l.close = func() { _ = f.Close() } // it was only read
		file = f
	}
	in := bufio.NewReaderSize(counter{file, read}, 64<<10)
	head, _ := in.Peek(4) // a shorter file is not compressed
	l.from = in
	var err error
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		l.compression = "gzip"
		l.from, err = gzip.NewReader(in)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		l.compression = "zstd"
		var d *zstd.Decoder
		if d, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1)); err == nil {
			closeFile := l.close
			l.from, l.close = d, func() { d.Close(); closeFile() }
		}
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// errLong is the error of a line that is too long; [lines.next] goes on behind it.
var errLong = errors.New("the line is longer than 1 MiB")

// next returns the next block of whole lines, without the end of the last one. The error is
// io.EOF after the last block, errLong in the place of one line, or that of the file.
func (l *lines) next() (string, error) {
	for !l.ended {
		n, err := l.from.Read(l.buf[l.n:])
		l.n += n
		if !l.started && l.n >= 3 {
			l.started = true
			if bytes.HasPrefix(l.buf[:l.n], []byte("\xef\xbb\xbf")) { // a byte order mark
				l.n = copy(l.buf, l.buf[3:l.n])
			}
		}
		if err != nil {
			l.ended = true
			if !errors.Is(err, io.EOF) {
				l.fault = err
			}
		}
		if l.n < len(l.buf) && !l.ended {
			continue
		}
		if i := bytes.IndexByte(l.buf[:l.n], '\n'); l.skips && (i >= 0 || l.ended) {
			l.skips = false
			l.n = copy(l.buf, l.buf[i+1:l.n]) // at the end there is nothing behind it
			if i < 0 {
				l.n = 0
			}
			continue
		}
		end := bytes.LastIndexByte(l.buf[:l.n], '\n')
		switch {
		case l.skips:
			l.n = 0
		case l.ended:
		case end < 0 && len(l.buf) < mostLine:
			l.buf = append(l.buf, make([]byte, len(l.buf))...)
		case end < 0:
			l.skips, l.n = true, 0
			return "", errLong
		default:
			block := string(l.buf[:end])
			l.n = copy(l.buf, l.buf[end+1:l.n])
			return block, nil
		}
	}
	if l.n == 0 {
		err := cmp.Or(l.fault, io.EOF)
		l.fault = nil
		return "", err
	}
	block := string(bytes.TrimSuffix(l.buf[:l.n], []byte("\n")))
	l.n = 0
	return block, nil
}
