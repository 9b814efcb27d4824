// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command draw draws docs/img: what each algorithm makes of the same traffic.
// The pictures are not sketches: every mark is a decision of package algo.
//
//	go run ./docs/draw docs/img
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: draw FOLDER")
		os.Exit(2)
	}
	for _, p := range pictures {
		svg, err := p.draw()
		if err == nil {
			err = os.WriteFile(filepath.Join(os.Args[1], p.file), svg, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "draw:", p.file+":", err)
			os.Exit(1)
		}
	}
}
