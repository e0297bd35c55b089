// SPDX-License-Identifier: Apache-2.0
// Gives up a process's privileges for good, before it becomes a VNF's program.
//
// The node starts VNFs as root, since only root may choose another user. Between that and the VNF's
// first instruction a process joins its control groups, leaves the host's network, whose loopback
// has the node's API, for one of its own, gives up root with its capabilities and further groups,
// and makes sure that no program that it starts can get them back (PR_SET_NO_NEW_PRIVS). It is a
// program of its own rather than a function of the node's because a child of a process with threads
// may hardly call anything before it executes a program (fork(2)), and it is C++ because an
// interpreter's start took a third of the time in which a graph of one VNF is deployed.
//
// Networks are of two kinds. One of the host's user namespace is empty and stays so. With
// `waits_at` it belongs to a user namespace of its own, in which the process keeps the right to
// configure it and to open packet sockets (CAP_NET_ADMIN, CAP_NET_RAW, as ambient capabilities:
// they outlive the execution of a program). It reads from that descriptor until whoever has started
// it has mapped its user there, put interfaces into the network, and written an octet. With `joins`
// it goes into the namespaces of a process that was started so.
//
// Thread safety: a process with one thread (setns(2) and unshare(2) demand it).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace headrace::confine {

struct Confinement {
  uid_t user{};                      ///< also its group
  std::vector<gid_t> groups;         ///< beside its own
  std::vector<std::string> cgroups;  ///< files (cgroup.procs) by which control groups are joined
  std::optional<int> waits_at;       ///< a descriptor
  uint64_t locked_mb{0};             ///< memory that it may lock; 0: what the node may
  std::optional<pid_t> joins;        ///< whose namespaces it goes into
};

/// Does all this. If it fails the process may have done some of it, and is to end.
Result<> enter(const Confinement& confinement);

}  // namespace headrace::confine
