// SPDX-License-Identifier: Apache-2.0
// Checksums and segmentation between a guest and the notes of packet/offload.h.
//
// What is negotiated (virtio 1.2, 5.1.3). By CSUM and HOST_TSO4/6 a guest may leave checksums and
// TCP segmentation of what it sends to us; by GUEST_CSUM and GUEST_TSO4/6 it takes packets of which
// they are left. All are offered, unless the port is told not to (options:offloads). UFO is not,
// either way: it means IP fragments, which the pipeline does not make.
//
// From a guest. librte_vhost reads the virtio_net_hdr once, and says what it found by receive
// flags (RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS): L4_CKSUM_NONE, LRO and tso_segsz; a checksum of a
// protocol that it does not know it computes itself. Where the headers are is not taken from the
// guest but parsed again, as the pipeline parses.
//
// To a guest. librte_vhost writes the virtio_net_hdr from the transmit flags, and before that the
// pseudo-header's sum into the packet; for a segmented packet without the length, as DPDK's drivers
// want it. A guest that forwards such a packet, and has it cut by its kernel or its NIC, would send
// wrong checksums: those want the length in (packet/offload.h). librte_vhost leaves a packet as it
// is whose first buffer is shorter than its headers by its own notes, so a segmented packet gets a
// first buffer for its headers alone, and an outer header's length in front of which there is none.
//
// Thread safety: pure functions of one packet.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

namespace headrace::port::vhost {

/// The features of virtio-net that are not offered.
[[nodiscard]] uint64_t features_not_offered(bool offloads);

/// True if packets of a guest with these features may have something left.
[[nodiscard]] bool guest_leaves(uint64_t features);
/// What a guest with these features takes, as Port::tx_offloads() says it.
[[nodiscard]] uint64_t guest_takes(uint64_t features);
/// True if a frame for a guest with these features may lie in several of its buffers.
[[nodiscard]] bool guest_merges(uint64_t features);

/// Turns what librte_vhost noted of a packet from a guest into the notes of packet/offload.h.
/// False: they contradict the packet, or its segments would be too small; it is to be dropped.
[[nodiscard]] bool take_guest_notes(rte_mbuf* packet) noexcept;

/// Makes a segmented packet ready for librte_vhost; `packet` may be replaced by one that begins
/// with a new buffer. Twice is as good as once. False: there is no buffer.
[[nodiscard]] bool prepare_segmented(rte_mbuf*& packet) noexcept;

}  // namespace headrace::port::vhost
