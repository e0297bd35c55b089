#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the C++ programs for 64-bit ARM on this machine, and runs their tests under QEMU.
#
# Debian's arm64 packages of what setup/packages.txt builds with are unpacked below .cross, without
# root and without touching the system; clang compiles for them. Needs clang, lld and, for the tests,
# qemu-user-static. Tests: what needs hugepages, KVM or kernel interfaces can't run under qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/.cross/aarch64 root=$PWD/.cross/aarch64/root build=build-aarch64
triple=aarch64-linux-gnu
# Unit tests that start neither EAL nor threads that poll: an emulated processor runs them in seconds.
tests=(${AARCH64_TESTS:-mac_address packet_parse packet_edit packet_checksum mac_table})

say() { printf 'aarch64: %s\n' "$*"; }

need() {
  command -v "$1" >/dev/null || { say "$1 is missing: install the Debian package $2"; exit 1; }
}

fetch() {
  local apt=$place/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$root"
  : >"$apt/status"
  cat >"$apt/sources.list" <<END
deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian-security bookworm-security main
END
  local options=(-qq -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
    -o "Dir::State::status=$apt/status" -o "Dir::Etc::sourcelist=$apt/sources.list"
    -o Dir::Etc::sourceparts=- -o APT::Architecture=arm64 -o APT::Architectures::=arm64
    -o Debug::NoLocking=1)
  local wanted
  mapfile -t wanted < <(grep -E '^(lib|nlohmann).*-dev$' setup/packages.txt)
  say "fetching ${#wanted[@]} arm64 packages and what they need"
  apt-get "${options[@]}" update
  apt-get "${options[@]}" --no-install-recommends --download-only -y install \
    "${wanted[@]}" libstdc++-12-dev libc6-dev >"$place/fetch.log"
  local file
  for file in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$file" "$root"; done
  # Absolute links would lead out of the root.
  find "$root" -type l -lname '/*' | while read -r file; do
    ln -snf "$root$(readlink "$file")" "$file"
  done
  touch "$place/fetched"
}

cross_file() {
  cat >"$place/cross.ini" <<END
[constants]
flags = ['--target=$triple', '--sysroot=$root', '-march=armv8-a+crc', '-fuse-ld=lld']
[binaries]
c = ['clang-14'] + flags
cpp = ['clang++-14'] + flags
ar = 'llvm-ar-14'
strip = 'llvm-strip-14'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '$root']
[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/$triple/pkgconfig:$root/usr/share/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
END
}

need clang++-14 clang-14
need ld.lld lld
need dpkg-deb dpkg
[ -e "$place/fetched" ] || fetch
cross_file
# DPDK's headers for ARM are not clean under clang's warnings.
[ -f "$build/build.ninja" ] || meson setup -Dwerror=false --cross-file "$place/cross.ini" "$build"
ninja -C "$build" programs
need qemu-aarch64-static qemu-user-static
meson test -C "$build" --print-errorlogs --timeout-multiplier 20 "${tests[@]}"
