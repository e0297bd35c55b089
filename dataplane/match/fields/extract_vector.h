// SPDX-License-Identifier: Apache-2.0
// The extractor's variants for vector instructions: a frame's headers as registers.
//
// A usual frame has its fields at fixed places, all within its first 64 bytes, and the first eight
// words of FlowKey are 64 bytes, too. So extraction is a permutation of bytes: load, check the
// bytes that must have fixed values (type, version, no fragment), permute, shift DSCP and ECN out
// of their octet, mask, add the constants of the burst, store. Three layouts have such a
// permutation: IPv4 without options, the same behind one VLAN tag, and IPv6 without extension
// headers. All else goes through the general parser.
//
// AVX-512 permutes the 64 bytes as one register; AVX2, which permutes within 16 bytes, loads each
// 16 bytes of the line from where all their sources are. Both take the same frames and gather the
// same burst metadata.
#pragma once

#include "match/fields/extract.h"
#include "match/fields/simd.h"

namespace headrace::match {

/// As extractor_for(), for processors where simd() is avx2, avx512; null in builds without it.
[[nodiscard]] Extractor avx2_extractor_for(Depth depth) noexcept;
[[nodiscard]] Extractor avx512_extractor_for(Depth depth) noexcept;

/// The general parser: any packet, any depth.
void extract_any(Depth depth, const rte_mbuf* packet, FlowKey& values,
                 packet::ParsedPacket& parsed) noexcept;

}  // namespace headrace::match
