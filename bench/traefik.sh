#!/usr/bin/env bash
# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0

# traefik.sh FILE builds Traefik from its module. Its dashboard is not part of
# that, and an empty page stands in for it: nothing else is changed. Later
# versions need modules that have no release.
set -euo pipefail

version=v3.6.12
out=$(realpath -m "$1")
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT

cd "$dir"
source=$(go mod download -json "github.com/traefik/traefik/v3@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -r "$source" source
chmod -R u+w source
mkdir -p source/webui/static "$(dirname "$out")"
echo '<!doctype html>' >source/webui/static/index.html
go build -C source -trimpath -o "$out" ./cmd/traefik
