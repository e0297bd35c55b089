// SPDX-License-Identifier: Apache-2.0
// A VNF's side of attaching (attach.h): requests a port of the switch and receives the region's
// file descriptor.
//
// What it returns is errors as negative errno and descriptors as numbers, since libheadrace-port is
// made of it, which neither throws nor uses Result.
#pragma once

#include <cstdint>
#include <span>

namespace headrace::shm {

/// The descriptors of an attached port; the caller closes both.
struct Attached {
  int connection{-1};  ///< open as long as the port is used: its end makes the switch take back all
  int region{-1};      ///< the region's file
  uint32_t port{0};
};

/// Asks by the Unix socket at `path` for the port `name`. 0, or a negative errno: -ENOENT no such
/// port, -EBUSY it has a user, -EPROTO another version of the protocol, and connect(2)'s own.
int ask_for_port(const char* path, const char* name, Attached& attached);

/// Maps a region's file whole, without closing it; empty with errno set if it can't be.
std::span<uint8_t> map_region(int region);

/// True while the switch holds the other end of `connection`.
bool is_connected(int connection);

}  // namespace headrace::shm
