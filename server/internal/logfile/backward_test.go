// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package logfile_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/logfile"
)

const longest = 64 << 10

// backward returns the lines of Backward, with "LONG" for a line that is too long.
func backward(t *testing.T, text string, most int64) (lines []string, more bool) {
	t.Helper()
	more, err := logfile.Backward(strings.NewReader(text), int64(len(text)), most, func(line []byte) bool {
		if line == nil {
			line = []byte("LONG")
		}
		lines = append(lines, string(line))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, more
}

// TestBackward: complete lines come last first, for all lengths around the size of a read.
func TestBackward(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	lengths := []int{0, 1, 10, 300, longest - 1, longest, longest + 1, 2*longest - 1, 2 * longest, 200_000}
	for range testkit.Steps(150, 300) {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(strings.Repeat(string(rune('a'+random.IntN(26))), lengths[random.IntN(len(lengths))]) + "\n")
		}
		text.WriteString(strings.Repeat("z", lengths[random.IntN(len(lengths))])) // an unfinished line
		all := text.String()
		most := random.Int64N(int64(len(all)) + 100)
		part := all[max(0, int64(len(all))-most):]
		cut := len(part) < len(all)
		whole := strings.Split(part, "\n")
		whole = whole[:len(whole)-1]
		if cut && len(whole) > 0 {
			whole = whole[1:]
		}
		var want []string
		for _, line := range slices.Backward(whole) {
			switch {
			case len(line) > longest:
				want = append(want, "LONG")
			case line != "":
				want = append(want, line)
			}
		}
		if got, more := backward(t, all, most); !slices.Equal(got, want) || more != cut {
			t.Fatalf("last %d of %d bytes: got %d lines, more %v; want %d, %v", most, len(all), len(got), more, len(want), cut)
		}
	}
}

// TestBackwardStops: Backward reads nothing after f returns false, stops where the file has
// become shorter, and returns errors of the disk.
func TestBackwardStops(t *testing.T) {
	text := strings.Repeat("a line\n", 100_000)
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	n := 0
	more, err := logfile.Backward(f, int64(len(text)), 1<<30, func([]byte) bool { n++; return n < 3 })
	if n != 3 || !more || err != nil {
		t.Errorf("%d lines, more %v, %v", n, more, err)
	}
	n = 0
	more, err = logfile.Backward(f, int64(len(text)), 1<<30, func(line []byte) bool {
		if n++; n == 1 {
			if err := f.Truncate(100); err != nil {
				t.Fatal(err)
			}
		}
		return bytes.Equal(line, []byte("a line"))
	})
	if n == 0 || n > longest/7+1 || !more || err != nil {
		t.Errorf("of a file that was truncated: %d lines, more %v, %v", n, more, err)
	}
	broken := errors.New("broken")
	if _, err := logfile.Backward(failing{broken}, 100, 100, func([]byte) bool { return true }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

var _ io.ReaderAt = failing{}
