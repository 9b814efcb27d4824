// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/cli"
)

const standardInput = "standard input"

// mostRead is one byte more than a configuration may have, so that the reader refuses it.
const mostRead = bounds.MaxFileBytes + 1

// readFile reads a file, or standard input, and returns its name.
func readFile(c *cli.Call, name string) (string, []byte, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(c.Stdin, mostRead))
		return standardInput, data, err
	}
	data, err := regular.ReadGiven(name, mostRead)
	return name, data, err
}

// loadFile reads a configuration file, or one passed to the program, such as /dev/stdin. Any
// other pipe is an error: it might never be written to.
func loadFile(name string) (*config.Config, error) {
	data, err := regular.ReadGiven(name, mostRead)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return config.Parse(name, data)
}
