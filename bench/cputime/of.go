// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cputime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Of returns the CPU time of a process and its children, in steps of 10 ms. It reads /proc.
func Of(pid int) (time.Duration, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; the fields begin behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s/stat: %d fields", dir, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] { // user and system
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	all := time.Duration(ticks) * 10 * time.Millisecond
	children, err := os.ReadFile(filepath.Join(dir, "task", strconv.Itoa(pid), "children"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for child := range strings.FieldsSeq(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		more, err := Of(n)
		if err != nil {
			return 0, err
		}
		all += more
	}
	return all, nil
}
