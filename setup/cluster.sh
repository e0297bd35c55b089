#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the programs of a Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager,
# kube-scheduler) from their Go modules, pinned in setup/cluster/go.mod, and prints the folder that
# holds them. A folder is named by what it was built from, so it is built once.
#
# `setup/cluster.sh --if-built` builds nothing, and fails if they are not there.
set -euo pipefail
cd "$(dirname "$0")/.."

CACHE=${HEADRACE_CACHE:-$HOME/.cache/headrace}/cluster
KUBERNETES=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' setup/cluster/go.mod)
KEY=$(cat setup/cluster/go.mod setup/cluster/go.sum setup/cluster.sh | sha256sum | cut -c1-16)
OUT=$CACHE/$KEY

if [ ! -e "$OUT/complete" ]; then
  [ "${1:-}" != --if-built ] || {
    echo "setup: the control plane is not built; make cluster builds it" >&2
    exit 1
  }
  GO=$(bash setup/go.sh)
  mkdir -p "$OUT"
  exec 9>"$OUT/lock"
  flock 9
fi
if [ ! -e "$OUT/complete" ]; then
  echo "setup: building Kubernetes $KUBERNETES and etcd into $OUT (half an hour on two cores)" >&2
  minor=${KUBERNETES#v1.}
  version=k8s.io/component-base/version
  flags="-s -w -X $version.gitVersion=$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=${minor%%.*}"
  export CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false -p=${HEADRACE_JOBS:-2}" GOTOOLCHAIN=local
  build() {
    (cd setup/cluster && "$GO" build -trimpath -tags selinux,notest,grpcnotrace \
      -ldflags "$flags" -o "$OUT/$1" "$2")
  }
  build etcd go.etcd.io/etcd/server/v3
  for program in kube-apiserver kube-controller-manager kube-scheduler; do
    build "$program" "k8s.io/kubernetes/cmd/$program"
  done
  touch "$OUT/complete"
fi
echo "$OUT"
