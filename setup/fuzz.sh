#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the libFuzzer targets with clang, sanitized, and runs each for FUZZ_SECONDS (60) from the
# committed corpus. What a run finds stays in results/fuzz/<target>; a crashing input is written
# there too. To keep a regression: copy it to tests/corpus/<target>/ under a name that says what it
# is, and fix the fault; every `make test` replays it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
if ! command -v clang++-14 >/dev/null; then
  echo "fuzz: clang++-14 is missing (Debian packages clang-14, libclang-rt-14-dev)" >&2
  exit 1
fi
if [ ! -f build-fuzz/build.ninja ]; then
  CC=clang-14 CXX='ccache clang++-14' meson setup build-fuzz -Dfuzz=true --buildtype=custom \
    -Doptimization=1 -Ddebug=false -Dcpp_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false
fi
meson compile -C build-fuzz fuzz
# Otherwise undefined behaviour is a line of the output, and the run goes on.
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
for program in $(find build-fuzz/dataplane -name '*_fuzz' -type f -perm -u+x | sort); do
  target=$(basename "$program")
  found=results/fuzz/$target
  mkdir -p "$found"
  # The entropic schedule weighs every feature of every input at each run: with the compiler's 50000
  # features that took nine tenths of the time.
  options=()
  [ "$target" != pipeline_fuzz ] || options=(-entropic=0)
  echo "fuzz: $target for $seconds s"
  "$program" -max_total_time="$seconds" -rss_limit_mb=3000 -timeout=20 -print_final_stats=1 "${options[@]}" \
    -artifact_prefix="$found/" "$found" "tests/corpus/$target"
done
