#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds all of dataplane/ for 64-bit ARM into build-aarch64/, with its tests, which run by
# qemu-aarch64 (user mode), and runs the tests of plugins/ as programs of that architecture.
#
#   setup/aarch64.sh build   what is to be had from Debian, the folder, all programs
#   setup/aarch64.sh test    the same, then the tests; words after it go to `meson test`
#
# Debian's arm64 packages are unpacked, not installed, below $HEADRACE_CACHE/aarch64
# (~/.cache/headrace/aarch64): the machine's own package database is not touched by them.
set -euo pipefail
cd "$(dirname "$0")/.."

CACHE=${HEADRACE_CACHE:-$HOME/.cache/headrace}/aarch64
SYSROOT=$CACHE/sysroot
BUILD=build-aarch64
TRIPLET=aarch64-linux-gnu
# What dataplane/ is built with (packages.txt), the C library, and the compiler's own.
PACKAGES=(libc6-dev libstdc++-12-dev libdpdk-dev libgtest-dev libgmock-dev libbenchmark-dev
  nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libasio-dev libssl-dev libexpected-dev
  libpcap-dev libnuma-dev libndpi-dev libyaml-cpp-dev)

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_tools() {
  local missing=() name
  while read -r name; do
    [[ -z $name || $name == \#* ]] && continue
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done <setup/packages-aarch64.txt
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >&2
}

# apt for arm64 with a state of its own and this machine's sources.
arm_apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
    -o APT::Sandbox::User="$(id -un)" -o Dir::State="$CACHE/apt/state" \
    -o Dir::State::status="$CACHE/apt/state/status" -o Dir::Cache="$CACHE/apt/cache" \
    -o Debug::NoLocking=1 "$@"
}

make_sysroot() {
  local want draft one
  want=$(printf '%s\n' "${PACKAGES[@]}" | sha256sum | cut -d' ' -f1)
  [ "$(cat "$SYSROOT/.complete" 2>/dev/null)" = "$want" ] && return
  say "unpacking Debian's arm64 packages into $SYSROOT"
  mkdir -p "$CACHE/apt/state/lists/partial" "$CACHE/apt/cache/archives/partial"
  : >"$CACHE/apt/state/status"
  arm_apt update >&2 || say "some of this machine's package sources have nothing for arm64"
  arm_apt install -y --no-install-recommends --download-only "${PACKAGES[@]}" >&2
  draft=$CACHE/sysroot.draft
  rm -rf "$draft"
  mkdir -p "$draft/usr/lib"
  ln -s usr/lib "$draft/lib"
  for one in "$CACHE"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$one" | tar -x -C "$draft" --keep-directory-symlink
  done
  # Links of packages to absolute paths would lead to this machine's own files.
  find "$draft" -type l -lname '/*' | while read -r one; do
    ln -sfnr "$draft$(readlink "$one")" "$one"
  done
  echo "$want" >"$draft/.complete"
  rm -rf "$SYSROOT"
  mv "$draft" "$SYSROOT"
}

# Meson's description of the target; qemu-aarch64 finds the target's libraries by -L. At -O1 the
# compiler takes std::optional's values for uninitialized (point_to_point_path.cc), as with sanitizers.
cross_file() {
  cat <<EOF
[binaries]
c = ['ccache', '$TRIPLET-gcc']
cpp = ['ccache', '$TRIPLET-g++']
ar = '$TRIPLET-gcc-ar'
strip = '$TRIPLET-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '$SYSROOT']
[built-in options]
c_args = ['--sysroot=$SYSROOT']
c_link_args = ['--sysroot=$SYSROOT']
cpp_args = ['--sysroot=$SYSROOT', '-Wno-maybe-uninitialized']
cpp_link_args = ['--sysroot=$SYSROOT']
[properties]
sys_root = '$SYSROOT'
pkg_config_libdir = '$SYSROOT/usr/lib/$TRIPLET/pkgconfig:$SYSROOT/usr/share/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
EOF
}

build() {
  local file=$CACHE/cross.ini
  install_tools
  make_sysroot
  cross_file >"$file.$$"
  mv "$file.$$" "$file"
  # As for the sanitizers: -O1, with assertions. How fast it is under an emulator says nothing.
  [ -f "$BUILD/build.ninja" ] || meson setup "$BUILD" --cross-file "$file" --buildtype=custom \
    -Doptimization=1 -Ddebug=false >&2
  ninja -C "$BUILD" programs >&2
}

test_dataplane() {
  meson test -C "$BUILD" --suite headrace --print-errorlogs --timeout-multiplier 20 "$@"
}

# Go builds for arm64 by itself; `go test -exec` runs what it has built.
test_plugins() {
  local go
  go=$(bash setup/go.sh)
  cd plugins
  CGO_ENABLED=0 GOARCH=arm64 GOTOOLCHAIN=local "$go" test -mod=readonly \
    -exec "qemu-aarch64-static -L $SYSROOT" ./...
}

case "${1:-}" in
build) build ;;
test)
  shift
  build
  test_dataplane "$@"
  test_plugins
  ;;
*)
  say "words: build, test"
  exit 2
  ;;
esac
