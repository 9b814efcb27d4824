// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command draw draws docs/img: what each algorithm makes of the same traffic.
// The pictures are not sketches: every mark is a decision of package algo.
//
//	go run ./docs/draw docs/img
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: draw FOLDER")
		os.Exit(2)
	}
	if err := drawAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// drawAll writes every picture into a folder, which must exist.
func drawAll(folder string) (err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, p := range pictures {
		svg, err := p.draw()
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if err := root.WriteFile(p.file, svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}
