#!/usr/bin/env bash
# SPDX-FileCopyrightText: The sluice authors
# SPDX-License-Identifier: Apache-2.0
#
# image.sh NAME:TAG VERSION ARCH... builds the container image for each kind of
# machine, by docker or buildah.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name="$1" version="$2"
shift 2
context="$(mktemp -d)"
trap 'rm -rf "$context"' EXIT
mkdir "$context/var"
for arch in "$@"; do
    echo "compiling for linux/$arch" >&2
    CGO_ENABLED=0 GOOS=linux GOARCH="$arch" go -C server build -trimpath -ldflags '-s -w' -o "$context/$arch/sluice" ./cmd/sluice
done
platforms="$(printf ',linux/%s' "$@")"
if docker buildx version >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
    # More than one kind of machine cannot be loaded into an engine: they are pushed.
    to=--load
    [[ $# -gt 1 ]] && to=--push
    docker buildx build "$to" --platform "${platforms#,}" --build-arg VERSION="$version" --tag "$name" --file deploy/Dockerfile "$context"
elif command -v buildah >/dev/null; then
    for arch in "$@"; do
        tag="$name"
        [[ $# -gt 1 ]] && tag="$name-$arch"
        buildah build --isolation chroot --format docker --platform "linux/$arch" --build-arg TARGETARCH="$arch" --build-arg VERSION="$version" --tag "$tag" --file deploy/Dockerfile "$context"
    done
else
    echo "image.sh: needs docker with buildx and a running engine, or buildah: apt-get install buildah" >&2
    exit 1
fi
