// SPDX-License-Identifier: Apache-2.0
// The extractor's variant for AVX-512: a frame's headers as one register.
//
// A usual frame has its fields at fixed places, all within its first 64 bytes, and the first eight
// words of FlowKey are 64 bytes, too. So extraction is a permutation of bytes: load, check the
// bytes that must have fixed values (type, version, no fragment), permute, shift DSCP and ECN out
// of their octet, mask, add the constants of the burst, store. Three layouts have such a
// permutation: IPv4 without options, the same behind one VLAN tag, and IPv6 without extension
// headers. All else goes through the general parser.
#pragma once

#include "match/fields/extract.h"
#include "match/fields/simd.h"

namespace headrace::match {

/// As extractor_for(), for processors where simd() is avx512; null in builds without it.
[[nodiscard]] Extractor avx512_extractor_for(Depth depth) noexcept;

/// The general parser: any packet, any depth.
void extract_any(Depth depth, const rte_mbuf* packet, FlowKey& values,
                 packet::ParsedPacket& parsed) noexcept;

}  // namespace headrace::match
