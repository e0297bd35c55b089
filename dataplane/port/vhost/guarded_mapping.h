// SPDX-License-Identifier: Apache-2.0
// Room behind each region of a guest's memory, where writes past its end do no harm.
//
// librte_vhost (22.11; the same in later releases) can be made to write a frame past the end of a
// guest's memory, by receive descriptors shorter than the virtio-net header of 12 octets:
//
// * Packed rings: virtio_dev_rx_sync_batch_check() compares the frame with `lens[i] - buf_offset`,
//   unsigned, which is huge for a descriptor of less than 12 octets.
// * All rings: mbuf_to_desc() lets the header go over into the second descriptor, and computes what
//   is left of that one as `buf_len - buf_offset`, which is huge if the header needs a third.
//
// Both write the frame in one piece from at most 12 octets behind the end of the descriptor on,
// where only the descriptor's octets were found to be the guest's. At the end of a region that is
// whatever the kernel has mapped behind it, and the guest chooses what the frame says. Looking at
// the descriptors first would not help: the guest can change them afterwards, and no feature that
// is not offered keeps it from such chains.
//
// So the library's regions are mapped with private memory behind them that has room for the longest
// frame. For that, its calls of mmap() and munmap() come here (the program's own symbols precede
// libc's): what its thread maps of a file without naming an address gets the room, everything else
// goes on to libc. What is written there is never read. Memory inside of a region is the guest's
// own to damage.
//
// Thread safety: any thread.
#pragma once

#include <cstddef>

namespace headrace::port::vhost {

/// Octets behind a region: more than the longest packet of an mbuf and a header.
inline constexpr size_t kGuardOctets = 256 << 10;

/// Whether the library's calls of mmap() and munmap() come here. In a program into which another
/// library that defines them was linked first (ThreadSanitizer's), without a reference to this
/// file, they did not.
[[nodiscard]] bool are_mappings_guarded();

/// Regions with room behind them that are mapped now.
[[nodiscard]] size_t guarded_mappings();

}  // namespace headrace::port::vhost
