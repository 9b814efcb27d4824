// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/sluicegate/sluice/adapters/internal/limittest"
)

func TestMain(m *testing.M) { limittest.Main(m, main) }

func TestExample(t *testing.T) {
	limittest.Example(t, "application/json", `"wrong"`)
}
