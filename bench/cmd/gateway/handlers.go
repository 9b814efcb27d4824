// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/sluicegate/sluice/bench/report"
)

// handlers measures the handlers of sluice serve without sockets and HTTP, by the
// benchmark that lies beside them, in turns of 60 ms.
func (m *measurer) handlers(ctx context.Context) error {
	test := filepath.Join(m.house.dir, "handlers.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", test, "./internal/serve")
	build.Dir = "../server"
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the benchmark: %w\n%s", err, out)
	}
	return m.rounds("Handlers", func(round int) error {
		cmd := exec.CommandContext(ctx, test, "-test.run", "^$", "-test.bench", "^BenchmarkHandlers$", "-test.benchtime", "60ms")
		cmd.Dir = m.house.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		samples, err := report.Parse(bytes.NewReader(out), round)
		if err != nil {
			return err
		}
		m.set = append(m.set, samples...)
		return m.raw.Write(out, "")
	})
}
