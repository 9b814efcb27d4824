// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table reads lines of columns: CSV, TSV, columns between blanks, and Zeek's logs.
type table struct {
	separator       byte
	zeek            bool
	options         Options
	header          string // the first line, if it has names
	columns         []column
	time, key, cost int // indexes; -1: none
	cells           []string
	err             error // why the columns cannot be used
}

var (
	errQuoted = errors.New("a field in quotation marks does not end in its line")
	errNoTime = errors.New("no column has times; name one with --time")
)

// cut sets the cells of a line. Only in CSV may cells be in quotation marks.
func (t *table) cut(line string) error {
	t.cells = t.cells[:0]
	if t.separator == ' ' {
		t.cells = append(t.cells, strings.Fields(line)...)
		return nil
	}
	for {
		cell, rest, more := strings.Cut(line, string(t.separator))
		if (t.separator == ',' || t.separator == ';') && strings.HasPrefix(line, `"`) {
			end := closing(line)
			if end < 0 {
				return errQuoted
			}
			cell = strings.ReplaceAll(line[1:end], `""`, `"`)
			_, rest, more = strings.Cut(line[end+1:], string(t.separator))
		}
		t.cells = append(t.cells, cell)
		if !more {
			return nil
		}
		line = rest
	}
}

// closing returns the index of the mark that ends a quoted cell, in which marks are doubled;
// -1 if there is none.
func closing(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] == '"' {
			if i+1 == len(s) || s[i+1] != '"' {
				return i
			}
			i++
		}
	}
	return -1
}

// detectTable finds the columns by the first lines, of which some may be comments. The error
// says which column is missing.
func detectTable(separator byte, sample []string, o Options) (parser, error) {
	t := &table{separator: separator, options: o}
	var first, next []string
	for _, line := range sample {
		if err := t.cut(line); err != nil {
			continue
		}
		if first == nil {
			first = slices.Clone(t.cells)
			t.header = line
		} else if next = slices.Clone(t.cells); len(next) == len(first) {
			break
		}
	}
	if len(first) == 0 || len(first) == 1 && o.Format == "" {
		return nil, errFields // any text has one column without the right separator
	}
	_, named := indexOf(first, o.Time)
	named = named || timeIn(first) < 0
	for _, name := range times {
		_, has := indexOf(first, name)
		named = named || has
	}
	var err error
	if named {
		err = t.named(first)
	} else {
		t.header, t.columns = "", make([]column, len(first))
		if t.time = timeIn(first); next != nil && timeIn(next) < 0 {
			t.time = -1
		}
		err = t.choose(make([]string, len(first)))
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// timeIn returns the index of the first cell with a time after 1990, -1 if there is none.
func timeIn(row []string) int {
	return slices.IndexFunc(row, func(s string) bool {
		at, err := ParseTime(s)
		return err == nil && at > 631152000*second
	})
}

// named finds the columns by the names in a header.
func (t *table) named(header []string) error {
	t.columns = t.columns[:0]
	for _, name := range header {
		t.columns = append(t.columns, named(strings.TrimSpace(name)))
	}
	t.time = -1
	for _, name := range times {
		if i, ok := indexOf(header, name); ok && t.time < 0 {
			t.time = i
		}
	}
	return t.choose(header)
}

// choose finds the columns that the options name.
func (t *table) choose(header []string) error {
	find := func(flag, name string) (int, error) {
		if name == "" {
			return -1, nil
		}
		i, ok := indexOf(header, name)
		if n, err := strconv.Atoi(name); !ok && err == nil && n >= 1 && n <= len(header) {
			return n - 1, nil
		}
		if ok {
			return i, nil
		}
		have := "numbers from 1 to " + strconv.Itoa(len(header))
		if strings.Join(header, "") != "" {
			have = strings.Join(header, ", ")
		}
		return -1, &columnError{fmt.Sprintf("--%s %s: there is no such column; the table has %s", flag, name, shorten(have))}
	}
	var errs [3]error
	if t.options.Time != "" {
		t.time, errs[0] = find("time", t.options.Time)
	}
	t.key, errs[1] = find("key", t.options.Key)
	t.cost, errs[2] = find("cost", t.options.Cost)
	if t.time < 0 && errs[0] == nil {
		errs[0] = errNoTime
	}
	return errors.Join(errs[:]...)
}

// columnError is the error of a column that is named and does not exist.
type columnError struct{ text string }

func (e *columnError) Error() string { return e.text }

func indexOf(header []string, name string) (int, bool) {
	i := slices.IndexFunc(header, func(s string) bool { return s != "" && strings.EqualFold(strings.TrimSpace(s), name) })
	return i, i >= 0
}

func (t *table) parse(line string, a *Arrival) (bool, error) {
	if t.zeek && strings.HasPrefix(line, "#") {
		if fields, ok := strings.CutPrefix(line, "#fields\t"); ok {
			t.err = t.named(strings.Split(fields, "\t"))
		}
		return false, nil
	}
	if line == t.header && line != "" {
		return false, nil
	}
	if t.err != nil {
		return false, t.err
	}
	if err := t.cut(line); err != nil {
		return false, err
	}
	if len(t.cells) != len(t.columns) {
		return false, errFields
	}
	var err error
	if a.At, err = ParseTime(t.cells[t.time]); err != nil {
		return false, err
	}
	for i, c := range t.columns {
		if c != colOther {
			if err := a.set(c, t.cells[i]); err != nil {
				return false, err
			}
		}
	}
	if t.key >= 0 {
		if a.Key = t.cells[t.key]; a.Key == "" {
			return false, errKey
		}
	}
	if t.cost >= 0 {
		return true, a.setCost(t.cells[t.cost])
	}
	return true, nil
}

// describe says how the table is read.
func (t *table) describe(format string) string {
	if t.header == "" && !t.zeek {
		return fmt.Sprintf("%s without a header, time in column %d", format, t.time+1)
	}
	return fmt.Sprintf("%s, time in column %d", format, t.time+1)
}
