#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what a Kubernetes node runs beside Headrace (plugins/: the CNI plugin and the device plugin)
# and the CNI programs that its tests use, and prints the folder that holds them. Go builds again only
# what has changed.
#
# `setup/plugins.sh --if-built` builds nothing, and fails if they are not there.
set -euo pipefail
cd "$(dirname "$0")/.."

OUT=$PWD/build-plugins
if [ "${1:-}" = --if-built ]; then
  [ -x "$OUT/headrace-cni" ] || {
    echo "setup: the plugins are not built; make plugins builds them" >&2
    exit 1
  }
  echo "$OUT"
  exit
fi
GO=$(bash setup/go.sh)
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false -p=${HEADRACE_JOBS:-2}" GOTOOLCHAIN=local
mkdir -p "$OUT"
(cd plugins && "$GO" vet ./... && "$GO" build -trimpath -ldflags='-s -w' -o "$OUT/" ./cmd/... tool) >&2
echo "$OUT"
