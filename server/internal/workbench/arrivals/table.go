// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"slices"
	"strconv"
	"strings"
)

// table reads lines of cells: those of a text format, or columns between separators.
type table struct {
	*layout
	options Options
	cut     func(cells []string, line string) []string
	header  string // the line with the names, if there is one
	zeek    bool
	least   int // cells of a line, and most; more than most are a fault
	most    int
	cells   []string
	err     error // why there is no layout yet
}

// fixed has the names of the columns of the text formats, and how many a line must have.
var fixed = map[string]struct {
	names string
	least int
}{
	"common":   {"client|host ident user time request status bytes", 7},
	"combined": {"client|host ident user time request status bytes referer agent", 7},
	"envoy":    {"time request status flags bytes_received bytes_sent duration_ms upstream_ms x_forwarded_for user_agent id authority|host upstream", 12},
	"alb":      {"type end elb client backend request_processing_time target_processing_time response_processing_time status target_status bytes_received bytes_sent request user_agent cipher protocol group trace domain certificate priority time", 22},
}

// fields cuts a line of a text format: cells are between blanks, and may be in quotation marks
// or brackets. The last one may lack its end.
func fields(cells []string, line string) []string {
	for line != "" {
		switch line[0] {
		case ' ':
			line = line[1:]
			continue
		case '"':
			end := mark(line[1:])
			cells, line = append(cells, line[1:1+end]), line[min(end+2, len(line)):]
		case '[':
			end := cmpIndex(strings.IndexByte(line, ']'), len(line)-1)
			cells, line = append(cells, line[1:max(end, 1)]), line[end+1:]
		default:
			end := cmpIndex(strings.IndexByte(line, ' '), len(line))
			cells, line = append(cells, line[:end]), line[end:]
		}
	}
	return cells
}

// mark returns the index of the first quotation mark that no backslash escapes, the length of s
// if there is none.
func mark(s string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		i += n
		if before := strings.TrimRight(s[:i], `\`); (i-len(before))%2 == 0 {
			return i
		}
	}
}

// separated returns a function that cuts lines of columns. In CSV cells may be in quotation
// marks, which are doubled within.
func separated(by byte) func([]string, string) []string {
	return func(cells []string, line string) []string {
		for {
			cell, rest, more := strings.Cut(line, string(by))
			if by != '\t' && strings.HasPrefix(line, `"`) {
				end := 1
				for end < len(line) && (line[end] != '"' || strings.HasPrefix(line[end:], `""`)) {
					end += 1 + strings.Count(line[end:min(end+2, len(line))], `""`)
				}
				end = min(end, len(line))
				cell = strings.ReplaceAll(line[1:end], `""`, `"`)
				_, rest, more = strings.Cut(line[min(end+1, len(line)):], string(by))
			}
			if cells = append(cells, cell); !more {
				return cells
			}
			line = rest
		}
	}
}

// detect finds the columns by the first lines: by the names in the header or, without one, by
// their numbers. The time is then the first column with times after 1990.
func (t *table) detect(sample []string) (err error) {
	if len(sample) == 0 {
		return errFields
	}
	first := t.cut(nil, sample[0])
	if t.least, t.most = len(first), len(first); len(first) < 2 && t.options.Format == "" {
		return errFields // any text is one column without the right separator
	}
	bare := t.options
	at := slices.IndexFunc(first, func(s string) bool { return isTime(s, 631152000*second) })
	if n, err := strconv.Atoi(bare.Time); err == nil && n >= 1 && n <= len(first) && isTime(first[n-1], 0) {
		at = n - 1
	} else if t.layout, err = newLayout(first, t.options); err == nil || at < 0 {
		t.header = sample[0]
		return err
	}
	if bare.Time == "" {
		bare.Time = strconv.Itoa(at + 1)
	}
	t.layout, err = newLayout(make([]string, len(first)), bare)
	return err
}

// isTime reports whether a text is a time after another.
func isTime(s string, after int64) bool {
	at, err := ParseTime(s)
	return err == nil && at > after
}

func (t *table) parse(line string, a *Arrival) (bool, error) {
	if t.zeek && strings.HasPrefix(line, "#") {
		if names, ok := strings.CutPrefix(line, "#fields\t"); ok {
			t.layout, t.err = newLayout(strings.Split(names, "\t"), t.options)
			t.least = strings.Count(names, "\t") + 1
			t.most = t.least
		}
		return false, nil
	}
	if line == t.header || t.err != nil {
		return false, t.err
	}
	if t.cells = t.cut(t.cells[:0], line); len(t.cells) < t.least || t.most > 0 && len(t.cells) > t.most {
		return false, errFields
	}
	return true, t.fill(a, t.cells)
}
