#!/usr/bin/env bash
# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts sluice and nginx, and sends requests through nginx. SLUICE names another program than sluice, and PORTS the
# ports of nginx, sluice, the application and the page of sluice.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
read -r front decide app admin <<<"${PORTS:-9000 9001 9002 9003}"
work="$(mktemp -d)"
chmod 755 "$work" # the workers of nginx have another user
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT
for file in sluice.yaml nginx.conf; do
    sed "s/127.0.0.1:9000/127.0.0.1:$front/; s/127.0.0.1:9001/127.0.0.1:$decide/; s/127.0.0.1:9002/127.0.0.1:$app/; s/127.0.0.1:9003/127.0.0.1:$admin/" "$here/$file" >"$work/$file"
done
up() { # until something listens on each port, for 30 s at most
    for port in "$@"; do
        for _ in {1..300}; do
            (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue 2
            sleep 0.1
        done
        cat "$work/sluice.log" >&2
        exit 1
    done
}
forged=()
ask() { # the method, path and status, and the remaining units
    curl -sS -o "$work/answer" -D "$work/head" -X "$1" ${3:+--data-binary @"$3"} "${forged[@]}" "http://127.0.0.1:$front$2"
    echo "$1 $2: $(sed -n '1s/.* \([0-9]*\) .*/\1/p' "$work/head") $(sed -n 's/^[Rr]ate[Ll]imit: [^;]*;\(r=[0-9]*\).*/\1/p' "$work/head")"
}

"${SLUICE:-sluice}" serve --config "$work/sluice.yaml" >"$work/sluice.log" 2>&1 &
sluice=$!
nginx -p "$work" -c "$work/nginx.conf" &
up "$front" "$decide" "$app"

head -c 1000000 /dev/zero >"$work/large"
for _ in 1 2 3 4 5; do ask GET /api/items; done
ask POST /api/items "$work/large"
ask GET /closed/items
forged=(-H "X-Forwarded-Uri: /free" -H "X-Original-URI: /free" -H "X-Forwarded-For: 192.0.2.7" -H "X-Forwarded-Method: OPTIONS")
ask GET /api/items
forged=(-H $'X-Odd: a\x01b')
ask GET /api/items
forged=()
ask GET /keyed/items
ask POST /upload "$work/large"
echo "the application got: $(cat "$work/answer")"
kill "$sluice"
wait "$sluice" || true
echo "without sluice:"
ask GET /api/items
ask GET /closed/items
