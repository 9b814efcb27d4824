#!/usr/bin/env bash
# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts Redis, three sluice processes and nginx on free ports of 127.0.0.1,
# sends the requests, prints the table and stops everything. Another store:
# run.sh -store redis-cluster://127.0.0.1:7000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for program in go nginx redis-server; do
    command -v "$program" >/dev/null || { echo "$program is missing; install it (Debian: apt-get install nginx redis-server)" >&2; exit 1; }
done
exec go run . "$@"
