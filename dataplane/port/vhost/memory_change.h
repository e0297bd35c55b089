// SPDX-License-Identifier: Apache-2.0
// What workers find in a guest's rings once librte_vhost (22.11) has failed to replace the table of
// the guest's memory.
//
// Upon SET_MEM_TABLE the library unmaps the regions that it has, maps those that the message names,
// and looks the rings up in them. Where it cannot map one, for instance since the file is none that
// can be mapped, it is left without a table, and with rings at addresses where nothing is mapped. A
// front-end that asked for a reply keeps its connection after that, and workers their routes: the
// next poll would end the process. Nothing is called after a message that failed, so it is too late
// to do anything then.
//
// So what the library unmaps upon that message is replaced by private memory in which every ring is
// empty: by zeros, and by the index of available chains of each split ring, which is where the
// library is. (A zero descriptor of a packed ring is never available.) Workers find nothing there,
// so they need no table either. When the message has succeeded, no ring lies there any more, and it
// is unmapped. When it has failed, the connection is ended, as the library does where no reply is
// asked for, and it is unmapped after that. A region that is not mapped yet would not be closed by
// the library; its file is closed here.
//
// Thread safety: begin, end, and what is called when memory is mapped, by librte_vhost's thread;
// all else by any thread.
#pragma once

#include <cstddef>

namespace headrace::port::vhost {

/// Before the library handles SET_MEM_TABLE of device `vid`.
void begin_memory_change(int vid);
/// After it has handled any message of device `vid` with success.
void end_memory_change(int vid);
/// Whether SET_MEM_TABLE of device `vid` has failed so that its memory is gone. To be asked between
/// messages.
[[nodiscard]] bool has_failed_memory_change(int vid);
/// The connection has ended: no worker is in the device any more.
void forget_memory_change(int vid);

/// Whether `octets` octets from `at` on are to stay mapped, which were to be unmapped, and are
/// empty rings now.
[[nodiscard]] bool stays_mapped(void* at, size_t octets);
/// The library could not map `file`.
void note_failed_mapping(int file);

}  // namespace headrace::port::vhost
