// SPDX-License-Identifier: Apache-2.0
// A VNF's side of attaching (attach.h): requests a port of the switch and receives the region's
// file descriptor.
//
// Errors are negative errno and descriptors are numbers, because libheadrace-port is built on this,
// which neither throws nor uses Result.
#pragma once

#include <cstdint>
#include <span>

namespace headrace::shm {

/// The descriptors of an attached port; the caller closes both.
struct Attached {
  int connection{
      -1};         ///< open while the port is used; when closed, the switch reclaims its buffers
  int region{-1};  ///< the region's file
  uint32_t port{0};
};

/// Requests the port `name` through the Unix socket at `path`. 0, or a negative errno: -ENOENT no
/// such port, -EBUSY it has a user, -EPROTO another version of the protocol, or connect(2)'s error.
int request_port(const char* path, const char* name, Attached& attached);

/// Maps a whole region file, without closing it; empty with errno set on failure.
std::span<uint8_t> map_region(int region);

/// Whether the switch still holds the other end of `connection`.
bool is_connected(int connection);

}  // namespace headrace::shm
