// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sluicegate/sluice/bench/report"
)

// maxRecord is the longest file of raw results that is read.
const maxRecord = 64 << 20

// reread makes a set of raw results kept earlier. Of several tries of one
// round it keeps what takeTurns kept.
func reread(path string, cores int) (header string, set report.Set, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", nil, err
	}
	if len(text) > maxRecord {
		return "", nil, fmt.Errorf("%s: longer than %d bytes", path, maxRecord)
	}
	busy := make(map[string]int)
	for _, g := range groups() {
		for _, t := range g.turns(cores) {
			busy[t.bench] = t.busy
		}
	}
	type turnOfRound struct {
		bench, who string
		round      int
	}
	at := make(map[turnOfRound]int)
	round := 0
	sc := bufio.NewScanner(bytes.NewReader(text))
	for sc.Scan() {
		line := sc.Text()
		if strings.HasPrefix(line, "# round ") {
			round++
		} else if round == 0 && strings.Contains(line, ": ") {
			header += line + "\n"
		}
		samples, err := report.Parse(strings.NewReader(line), round)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, s := range samples {
			key := turnOfRound{s.Bench, s.Who, round}
			t := turn{busy: busy[s.Bench]}
			if i, again := at[key]; !again {
				at[key] = len(set)
				set = append(set, s)
			} else if served(t, s) > served(t, set[i]) {
				set[i] = s
			}
		}
	}
	if err := sc.Err(); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(set) == 0 {
		return "", nil, fmt.Errorf("%s: no results; give a .txt file that this command has written", path)
	}
	return header, set, nil
}
