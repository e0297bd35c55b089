// SPDX-License-Identifier: Apache-2.0
// What of a guest's messages librte_vhost (22.11) would take although it makes it read or write
// beyond a ring.
//
// * SET_VRING_NUM changes the size at once, also where the message is then refused, and of a ring
//   that is mapped, whose octets were found to be the guest's for the size before. Sizes of 0 and
//   such that are no power of two stay beside arrays that were made for another size.
// * SET_VRING_BASE, and a size that is set after it, take positions beyond the end of a packed
//   ring.
// * SET_LOG_BASE maps the log from an offset of the file on, and adds the offset once more to where
//   it writes: beyond what it mapped. QEMU has none.
// * SET_MEM_TABLE unmaps what is mapped before it finds that a region has no octets, or more than
//   there are addresses, and leaves the file of that open (memory_change.h has what else may fail).
//
// A front-end that asks for a reply keeps its connection after a message that was refused, so it
// is not enough that the library refuses: the message must not reach it.
//
// Thread safety: called upon messages, which librte_vhost handles one at a time for each device.
#pragma once

namespace headrace::port::vhost {

/// Whether `message` (as vhost-user has it) must not be handled for device `vid`.
[[nodiscard]] bool is_refused(int vid, const void* message);

/// Whether `message` replaces the table of the guest's memory.
[[nodiscard]] bool changes_memory(const void* message);

/// Sets each packed ring of device `vid` whose position is beyond its end to its begin.
void confine_positions(int vid);

}  // namespace headrace::port::vhost
