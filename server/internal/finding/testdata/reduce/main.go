// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command reduce makes a stream of requests from a log on standard input: when each
// came, and a number for its key. README.md beside it says what streams look like.
package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 || formats[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "reduce: say what the log is: apache, dns-client or dns-name; it is read from standard input")
		os.Exit(2)
	}
	if err := reduce(os.Stdin, os.Stdout, formats[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, "reduce:", err)
		os.Exit(1)
	}
}

// formats read a line: when the request came, in ms, and its key.
var formats = map[string]func(line string) (at int64, key string, err error){
	"apache":     apache,
	"dns-client": zeek(2),
	"dns-name":   zeek(9),
}

var errFields = errors.New("the line has too few fields")

func apache(line string) (at int64, key string, err error) {
	key, rest, _ := strings.Cut(line, " ")
	_, rest, _ = strings.Cut(rest, "[")
	date, _, _ := strings.Cut(rest, "]")
	t, err := time.Parse("02/Jan/2006:15:04:05 -0700", date)
	return t.UnixMilli(), key, err
}

func zeek(column int) func(string) (int64, string, error) {
	return func(line string) (at int64, key string, err error) {
		fields := strings.Split(line, "\t")
		if len(fields) <= column {
			return 0, "", errFields
		}
		seconds, err := strconv.ParseFloat(fields[0], 64)
		return int64(math.Floor(1000 * seconds)), fields[column], err
	}
}

// request is one of a log.
type request struct {
	at  int64 // in ms
	key string
}

func reduce(from io.Reader, to io.Writer, read func(string) (int64, string, error)) error {
	var all []request
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		at, key, err := read(lines.Text())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, request{at, strings.Clone(key)})
	}
	if err := lines.Err(); err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	var b []byte
	numbers := make(map[string]uint64)
	for i, r := range all {
		number, known := numbers[r.key]
		if !known {
			number = uint64(len(numbers))
			numbers[r.key] = number
		}
		b = binary.AppendUvarint(b, uint64(r.at-all[max(i-1, 0)].at))
		b = binary.AppendUvarint(b, number)
	}
	w, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Close()
}
