// SPDX-License-Identifier: Apache-2.0
// Survives a guest that takes back memory that it shares.
//
// A front-end shares its memory as files, and may truncate them while they are mapped here: the
// next access, of a worker or of librte_vhost's own thread, raises SIGBUS, which would end the
// switch for everybody. Memory cannot be asked to be sealed against that, as memif's can, since
// neither QEMU's files nor DPDK's virtio-user are. So the signal is handled: where a worker is in a
// guest's memory, or the thread is librte_vhost's ("vhost-events"), the page is replaced by one of
// a scratch file, the access is repeated there, and the guest is marked, so that it is not served
// any more (device.cc). All such pages are the same one, so a guest cannot make them use up memory.
// A SIGBUS from anywhere else has its usual effect.
//
// Costs a thread-local store before and after each burst.
//
// Thread safety: all functions may be called from any thread.
#pragma once

namespace headrace::port::vhost {

/// Installs the handler, once for the process.
void guard_guest_memory();

/// True on librte_vhost's thread, which handles the messages of all guests.
bool is_library_thread();

/// The guest whose memory this thread accesses, + 1; 0: none. Read by the signal handler.
inline thread_local volatile int guest_accessed = 0;

/// While it lives, this thread accesses the memory of device `vid`.
class GuestAccess {
 public:
  explicit GuestAccess(int vid) noexcept { guest_accessed = vid + 1; }
  ~GuestAccess() { guest_accessed = 0; }
  GuestAccess(const GuestAccess&) = delete;
  GuestAccess& operator=(const GuestAccess&) = delete;
};

/// True if memory of device `vid` was found to be gone.
bool has_lost_memory(int vid);
/// The number is used for another guest.
void forget_lost_memory(int vid);

}  // namespace headrace::port::vhost
