#!/usr/bin/env bash
# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
#
# Hands persistent offenders to the kernel: their packets are dropped before
# there is a connection, for a while, and then no more.
#
#   offenders.sh setup PORT...    make the table, for these TCP ports
#   offenders.sh block [TIME]     block the clients on standard input, one a
#                                 line, for TIME (10m): again from now for those
#                                 that are blocked already
#   offenders.sh unblock          let those on standard input back in
#   offenders.sh list             show who is blocked, for how long, and what
#                                 was dropped
#   offenders.sh remove           take the table away
#
# A client is an IPv4 address or an IPv6 network of 64 bits (2001:db8::/64): the
# keys under which sluice counts clients. Needs root and nft.
set -euo pipefail

table="inet sluice_offenders"
most=65536 # clients; more are refused by the kernel

die() {
    echo "offenders.sh: $*" >&2
    exit 2
}

setup() {
    [[ $# -gt 0 ]] || die "setup: which ports? write for example: setup 80 443"
    local port
    for port in "$@"; do
        [[ $port =~ ^[0-9]{1,5}$ && 10#$port -ge 1 && 10#$port -le 65535 ]] || die "setup: $port is not a port"
    done
    local ports="$*"
    # Dropped before connections are tracked, which is the cheapest place.
    # Adding first makes this work whether or not there was a table before.
    nft -f - <<RULES
add table $table
delete table $table
table $table {
    set v4 { type ipv4_addr; flags timeout; size $most; }
    set v6 { type ipv6_addr; flags timeout; size $most; }
    chain drop_offenders {
        type filter hook prerouting priority raw; policy accept;
        iif lo accept
        tcp dport { ${ports// /, } } ip saddr @v4 counter drop
        tcp dport { ${ports// /, } } ip6 saddr & ffff:ffff:ffff:ffff:: @v6 counter drop
    }
}
RULES
}

# element prints the set and the element of a client, or fails.
element() {
    local client=$1 octet
    if [[ $client =~ ^([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})$ ]]; then
        for octet in "${BASH_REMATCH[@]:1}"; do
            ((10#$octet <= 255)) || return 1
        done
        echo "v4 $client"
    elif [[ $client =~ ^([0-9a-fA-F]{1,4}(:[0-9a-fA-F]{1,4}){0,3}::)/64$ ]]; then
        echo "v6 ${BASH_REMATCH[1]}"
    else
        return 1
    fi
}

# each runs a command with the set and the element of every client.
each() {
    local client found set_name item failed=0
    while read -r client || [[ -n $client ]]; do
        [[ -n $client ]] || continue
        if ! found=$(element "$client"); then
            echo "offenders.sh: ${client:0:60} is neither an IPv4 address nor an IPv6 /64; left out" >&2
            failed=1
            continue
        fi
        read -r set_name item <<<"$found"
        "$@" "$set_name" "$item" || failed=1
    done
    return "$failed"
}

# In one transaction: an element that is there keeps its old time if it is only
# added, and one that is not cannot be deleted.
block_one() {
    nft -f - <<RULES
add element $table $2 { $3 }
delete element $table $2 { $3 }
add element $table $2 { $3 timeout $1 }
RULES
}

unblock_one() {
    nft -f - <<RULES
add element $table $1 { $2 }
delete element $table $1 { $2 }
RULES
}

command=${1:-}
[[ $# -eq 0 ]] || shift
case $command in
setup) setup "$@" ;;
block)
    time=${1:-10m}
    [[ $time =~ ^([0-9]{1,6}[dhms])+$ ]] || die "block: $time is not a time; use for example 10m or 1h30m"
    each block_one "$time"
    ;;
unblock) each unblock_one ;;
list) nft list table $table ;;
remove) nft delete table $table ;;
*) die "write setup, block, unblock, list or remove; the head of this file says more" ;;
esac
