// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
