#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the lab guest needs beyond `make setup` to have an adapter with SR-IOV: Debian's kernel with all
# drivers (igb, igbvf), and a QEMU that emulates such an adapter (8.0 and later; Debian's backports have
# one). Both are unpacked into .lab and not installed. Without them the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

[ "$(dpkg --print-architecture)" = amd64 ] || exit 0
[ -e .lab/complete ] && exit 0
exec 9>.setup.lock
flock 9
[ -e .lab/complete ] && exit 0

draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
# Backports are where the machine has the release itself from.
archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' | awk -v release="$release" '$1 == release {uri = $2} END {print uri}')
mkdir -p "$draft"/{lists/partial,cache/archives/partial,packages}
printf 'deb [signed-by=%s] %s %s main\n' \
  /usr/share/keyrings/debian-archive-keyring.gpg "$archive" "$release-backports" >"$draft/sources.list"
# The machine's own list of sources stays as it is.
backports=(-o "Dir::Etc::sourcelist=$draft/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$draft/lists" -o "Dir::Cache=$draft/cache" -o APT::Sandbox::User=root)
kernel=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')

fetch() {
  cd "$draft/packages"
  apt-get "${backports[@]}" update -qq
  apt-get "${backports[@]}" download -qq qemu-system-x86 qemu-system-common qemu-system-data
  apt-get -o APT::Sandbox::User=root download -qq "$kernel"
  for package in *.deb; do dpkg-deb -x "$package" "$draft/root"; done
}

if [ -n "$kernel" ] && (fetch) >"$draft/log" 2>&1; then
  rm -rf .lab
  mkdir .lab
  mv "$draft/root/boot" "$draft/root/lib" "$draft/root/usr" .lab/
  touch .lab/complete
  say "unpacked $kernel and $(.lab/usr/bin/qemu-system-x86_64 --version | head -n 1) for the lab guest"
else
  tail -n 5 "$draft/log" >&2 || true
  say "no QEMU of $release-backports or no linux-image-amd64 to be had: tests with SR-IOV are skipped"
fi
