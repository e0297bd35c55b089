// SPDX-License-Identifier: Apache-2.0
// One direction of an IPsec tunnel: ESP (RFC 4303) in tunnel mode over IPv4.
//
// This class does the framing: ESP header, IV, padding, sequence numbers (extended ones, too: RFC
// 4303, 2.2.1); the anti-replay window is in replay_window.h. The cipher is Intel's intel-ipsec-mb,
// which uses AES-NI, VAES or AVX-512 as the processor has them, through one of two DPDK devices:
// crypto_aesni_gcm for AES-GCM (RFC 4106), crypto_aesni_mb for AES-CBC (RFC 3602) with HMAC-SHA1-96
// (RFC 2404) or HMAC-SHA-256-128 (RFC 4868). Both process a burst in the calling thread, without
// queues, which DPDK's crypto_openssl can't.
//
// Why not librte_ipsec, which does framing, too: in DPDK 22.11 its synchronous path gives all CBC
// packets of a tunnel the same IV on the wire. It enciphers the sequence number with the sequence
// number as IV, which always gives the block of zeroes, so equal packets have equal ciphertexts.
//
// IVs: GCM's is the sequence number, unique as RFC 4106, 3.1 requires. CBC's must be unpredictable
// (RFC 3602, 3): it is the sequence number enciphered with the key, which costs one block.
//
// Keys come from a configuration file. RFC 4106, 2 forbids AES-GCM with manual keys, since a
// restart reuses nonces: use this for measurements, not to protect data. A reload continues the
// sequence.
//
// Thread safety: none; used by the worker only.
#pragma once

#include <rte_crypto_sym.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "packet/headers.h"
#include "vnf/net/address.h"
#include "vnf/state/replay_window.h"

namespace headrace::vnf {

struct EspParameters {
  enum class Suite : uint8_t { aes_gcm, aes_cbc_hmac_sha1, aes_cbc_hmac_sha256 };
  enum class Direction : uint8_t { seal, open };

  Direction direction{Direction::seal};
  Suite suite{Suite::aes_gcm};
  uint32_t spi{0};
  std::vector<uint8_t> key;       ///< of AES: 16, 24 or 32 octets
  std::array<uint8_t, 4> salt{};  ///< of GCM's nonce
  std::vector<uint8_t> auth_key;  ///< of HMAC
  Ipv4Address outer_src{0};
  Ipv4Address outer_dst{0};
  uint32_t replay_window{64};  ///< packets; 0: no anti-replay. Opening only.
  bool extended_sequence{false};
  bool operator==(const EspParameters&) const = default;
};

class EspSa {
 public:
  /// Packets in one call at most.
  static constexpr size_t kMaxBurst = 64;

  /// Fails for a key of a wrong length, or where the processor lacks AES-NI.
  static Result<std::unique_ptr<EspSa>> make(const EspParameters& parameters);
  ~EspSa();
  EspSa(const EspSa&) = delete;
  EspSa& operator=(const EspSa&) = delete;

  /// The result for a burst, whose packets are reordered: done, then refused, then failed.
  struct Outcome {
    size_t done;  ///< processed; they begin with the outer (sealed) or inner (opened) IPv4 header
    size_t refused;  ///< opening: replayed, or no ESP packet by its length; sealing: no headroom or
                     ///< tailroom, or the sequence is exhausted
    size_t failed;   ///< authentication failed, or padding or next header are wrong
  };
  /// Encrypts or decrypts at most kMaxBurst packets, each beginning with its IPv4 header. Encrypted
  /// packets have the outer header's length and checksum set; its TTL is 64.
  Outcome process(std::span<rte_mbuf*> packets) noexcept;

  [[nodiscard]] const EspParameters& parameters() const { return parameters_; }

 private:
  struct Job;
  struct Batch;

  explicit EspSa(EspParameters parameters);
  Result<> open_device();
  Result<> open_session();
  bool prepare_seal(rte_mbuf* packet, Job& job) noexcept;
  bool prepare_open(rte_mbuf* packet, Job& job) noexcept;
  void describe(Job& job, Batch& batch, size_t index) noexcept;
  void finish_seal(const Job& job) const noexcept;
  bool finish_open(rte_mbuf* packet, const Job& job) noexcept;

  EspParameters parameters_;
  uint16_t iv_size_;
  uint16_t icv_size_;
  uint16_t block_;                ///< a plaintext is padded to a multiple
  packet::Ipv4Header outer_{};    ///< for an empty payload
  rte_crypto_sym_ofs offsets_{};  ///< the range of a packet that is enciphered
  ReplayWindow window_;
  uint64_t sequence_{0};  ///< the last one sent
  std::string device_;    ///< its name; "" before open_device()
  uint8_t device_id_{0};
  rte_mempool* sessions_{nullptr};
  void* session_{nullptr};
};

/// Octets of the AES keys that a suite takes, and of its HMAC key (0: none).
bool is_cipher_key_size(size_t octets);
size_t auth_key_size(EspParameters::Suite suite);

}  // namespace headrace::vnf
