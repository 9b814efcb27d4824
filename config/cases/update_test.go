// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package cases_test

import "flag"

// update rewrites the expected results under testdata.
var update = flag.Bool("update", false, "rewrite expected results under testdata")
