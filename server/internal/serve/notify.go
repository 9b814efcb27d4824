// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"net"
	"os"
)

// notifySystemd sends READY=1 now and STOPPING=1 when ctx ends if systemd started the program
// as Type=notify, as sd_notify(3) describes. It does nothing without NOTIFY_SOCKET. The caller
// must call stop when the program ends.
func notifySystemd(ctx context.Context, log *slog.Logger, status string) (stop func() bool) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func() bool { return true }
	}
	send := func(state string) {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err == nil {
			_, err = conn.Write([]byte(state))
			if closing := conn.Close(); err == nil {
				err = closing
			}
		}
		if err != nil {
			log.Warn("systemd was not notified", slog.String("state", state), slog.Any("error", err))
		}
	}
	send("READY=1\nSTATUS=" + status)
	return context.AfterFunc(ctx, func() { send("STOPPING=1") })
}
