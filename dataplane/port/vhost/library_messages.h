// SPDX-License-Identifier: Apache-2.0
// The files that come with a message that librte_vhost reads, and the connection that it reads
// from, neither of which the library tells its callbacks.
//
// A message that is kept from the library (message_checks.h) keeps its files open: the library
// closes them where it handles or refuses a message itself, and not where a callback refuses it. A
// guest could so use up all that the process may open. And there is no call that ends one guest's
// connection. For both, the library's calls of recvmsg() come here, as those of mmap() do
// (guarded_mapping.h).
//
// Thread safety: what is here for the calling thread's message; the functions do nothing on threads
// that read none.
#pragma once

namespace headrace::port::vhost {

/// Closes the files of the message that this thread has read last. To be called where the library
/// will not look at them any more.
void close_files_of_message();

/// Ends the connection that this thread has read from last: the library finds it closed by the
/// guest when it is done with the message. What the guest has still sent is not read.
void end_connection_of_message();

}  // namespace headrace::port::vhost
