// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the process killed if the test that started it dies without stopping it,
// as at a timeout. The process dies with the thread that starts it, so that thread must not
// end.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
