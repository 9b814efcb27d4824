// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import "flag"

// update rewrites the files under testdata that hold what is expected.
var update = flag.Bool("update", false, "rewrite expected results under testdata")
