// SPDX-License-Identifier: Apache-2.0
// The messages between a VNF and the switch when the VNF attaches: one request, one reply that
// carries the region's file descriptor (SCM_RIGHTS), on a Unix stream socket. The connection stays
// open as long as the VNF uses the port: when it closes for any reason, the switch reclaims the
// buffers that the VNF held.
#pragma once

#include <cstdint>

#include "shm/layout.h"

namespace headrace::shm {

struct AttachRequest {
  uint64_t magic{kMagic};
  uint16_t version_major{kLayoutVersion};
  uint16_t version_minor{0};
  uint32_t process{0};
  char name[kNameSize]{};
};
static_assert(sizeof(AttachRequest) == 56);

struct AttachReply {
  int32_t status{0};  ///< 0, or a negative errno, without a descriptor
  uint32_t port{0};
};
static_assert(sizeof(AttachReply) == 8);

}  // namespace headrace::shm
