#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a Debian 12 machine for Headrace: system packages, Python environment, hugepages.
# Each step runs only if something is missing, says what it does, and can be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  local missing=() name
  while read -r name; do
    [[ -z $name || $name == \#* ]] && continue
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done <setup/packages.txt
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log
  log=$(mktemp)
  # The system's own Open vSwitch daemons are not wanted: the node runs its own, in its own place.
  if ! { as_root apt-get update -qq &&
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq \
      --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    say "the packages could not be installed (above); install them by hand from setup/packages.txt"
    exit 1
  fi
  rm -f "$log"
}

make_environment() {
  local stamp=.venv/.headrace-installed want
  want=$(sha256sum pyproject.toml | cut -d' ' -f1)
  [ -x .venv/bin/headrace ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  say "making the Python environment in .venv"
  [ -x .venv/bin/python ] || /usr/bin/python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --editable '.[test]'
  echo "$want" >"$stamp"
}

reserve_hugepages() {
  local want=1024 have
  have=$(cat /proc/sys/vm/nr_hugepages 2>/dev/null || echo 0)
  if [ "$have" -lt "$want" ]; then
    if [ "$(id -u)" -eq 0 ] && { echo "$want" >/proc/sys/vm/nr_hugepages; } 2>/dev/null; then
      have=$(cat /proc/sys/vm/nr_hugepages)
      say "reserved $have hugepages of 2 MiB"
    fi
  fi
  if [ "$have" -eq 0 ]; then
    say "no hugepages here: the programs run without them (slower)"
  elif [ "$(id -u)" -eq 0 ] && ! grep -q ' /dev/hugepages hugetlbfs ' /proc/mounts; then
    mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages &&
      say "mounted hugetlbfs on /dev/hugepages"
  fi
}

kernel_package() {
  apt-cache depends linux-image-cloud-amd64 2>/dev/null |
    awk '/Depends: linux-image/ {print $2; exit}'
}

# The kernel of the tests' virtual machines: Debian's, unpacked but not installed, since this machine
# is not to boot it. Without it those tests are skipped with the reason.
fetch_guest_kernel() {
  local package draft
  [ "$(dpkg --print-architecture)" = amd64 ] || return 0
  compgen -G '.guest/boot/vmlinuz-*' >/dev/null && return
  package=$(kernel_package)
  if [ -z "$package" ]; then
    as_root apt-get update -qq >/dev/null 2>&1 || true
    package=$(kernel_package)
  fi
  draft=$(mktemp -d)
  if [ -n "$package" ] && (cd "$draft" && apt-get download -qq "$package") >/dev/null 2>&1 &&
    dpkg-deb -x "$draft/$package"_*.deb "$draft/root"; then
    say "unpacked $package for the tests' virtual machines"
    rm -rf .guest
    mkdir .guest
    cp -r "$draft/root/lib" .guest/
    cp -r "$draft/root/boot" .guest/
  else
    say "no linux-image-cloud-amd64 to be had: tests with virtual machines are skipped"
  fi
  rm -rf "$draft"
}

# Docker's daemon and Podman, for the test of containers that they make: Debian's, unpacked but not
# installed, since this machine is not to run them. Without them it is skipped with the reason.
fetch_daemons() {
  local draft file packages
  [ -x .daemons/usr/bin/podman ] && return
  packages=(docker.io containerd podman conmon netavark golang-github-containers-common
    golang-github-containers-image libsubid4 libgpgme11 libassuan0 libdevmapper1.02.1 libyajl2)
  draft=$(mktemp -d)
  if (cd "$draft" && apt-get download -qq "${packages[@]}") >/dev/null 2>&1; then
    for file in "$draft"/*.deb; do
      dpkg-deb -x "$file" "$draft/root"
    done
    rm -rf .daemons
    mkdir .daemons
    cp -r "$draft"/root/{usr,lib,etc} .daemons/
    say "unpacked Docker's daemon and Podman for the tests"
  else
    say "no docker.io and podman to be had: the test with them is skipped"
  fi
  rm -rf "$draft"
}

# Two makes at once take turns.
exec 9>.setup.lock
flock 9
install_packages
make_environment
fetch_guest_kernel
fetch_daemons
reserve_hugepages
