#!/usr/bin/env bash
# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts sluice, and asks it from Go, Python and Node, which share its budgets. SLUICE names another program than sluice,
# and PORT another port. The clients for Python and Node are the Debian packages python3-redis and node-redis.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
port="${PORT:-6380}"
work="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
sed "s/127.0.0.1:6380/127.0.0.1:$port/" "$here/sluice.yaml" >"$work/sluice.yaml"
"${SLUICE:-sluice}" serve --config "$work/sluice.yaml" >"$work/sluice.log" 2>&1 &
for i in {1..300}; do # until it listens, for 30 s at most
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    [[ $i -lt 300 ]] || { cat "$work/sluice.log" >&2; exit 1; }
    sleep 0.1
done

(cd "$here/.." && exec go run ./resp "127.0.0.1:$port")
/usr/bin/python3 "$here/resp.py" "127.0.0.1:$port"
NODE_PATH="${NODE_PATH:-/usr/share/nodejs}" node "$here/resp.js" "127.0.0.1:$port"
