// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/esp_sa.h"

#include <rte_cryptodev.h>
#include <rte_dev.h>
#include <rte_errno.h>

#include <algorithm>
#include <cstring>

#include "eal/drivers.h"
#include "packet/checksum.h"

namespace headrace::vnf {
namespace {

using Suite = EspParameters::Suite;
using Direction = EspParameters::Direction;

constexpr uint16_t kGcmIv = 12;  ///< salt and explicit IV: RFC 4106, 4
constexpr uint16_t kGcmIcv = 16;
constexpr uint16_t kGcmAad = 8;      ///< SPI and sequence: RFC 4106, 5
constexpr uint16_t kGcmAadEsn = 12;  ///< with the extended sequence
constexpr uint16_t kCbcIv = 16;
constexpr uint32_t kQueueSize = 64;
constexpr uint8_t kIpInIp = 4;  ///< the next header of a tunnel: RFC 2003

/// The transforms of a session, chained in the order that the direction requires.
struct Transforms {
  rte_crypto_sym_xform cipher{};
  rte_crypto_sym_xform auth{};
  rte_crypto_sym_xform* first{nullptr};
};

void set_gcm(const EspParameters& p, Transforms& t) {
  t.cipher.type = RTE_CRYPTO_SYM_XFORM_AEAD;
  auto& aead = t.cipher.aead;
  aead.op =
      p.direction == Direction::seal ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT;
  aead.algo = RTE_CRYPTO_AEAD_AES_GCM;
  aead.key = {p.key.data(), static_cast<uint16_t>(p.key.size())};
  aead.iv.length = kGcmIv;
  aead.digest_length = kGcmIcv;
  aead.aad_length = p.extended_sequence ? kGcmAadEsn : kGcmAad;
  t.first = &t.cipher;
}

/// Encrypt, then authenticate: RFC 4303, 3.3.2.
void set_cbc(const EspParameters& p, Transforms& t) {
  const bool seals = p.direction == Direction::seal;
  t.cipher.type = RTE_CRYPTO_SYM_XFORM_CIPHER;
  auto& cipher = t.cipher.cipher;
  cipher.op = seals ? RTE_CRYPTO_CIPHER_OP_ENCRYPT : RTE_CRYPTO_CIPHER_OP_DECRYPT;
  cipher.algo = RTE_CRYPTO_CIPHER_AES_CBC;
  cipher.key = {p.key.data(), static_cast<uint16_t>(p.key.size())};
  cipher.iv.length = kCbcIv;
  t.auth.type = RTE_CRYPTO_SYM_XFORM_AUTH;
  auto& auth = t.auth.auth;
  auth.op = seals ? RTE_CRYPTO_AUTH_OP_GENERATE : RTE_CRYPTO_AUTH_OP_VERIFY;
  const bool sha1 = p.suite == Suite::aes_cbc_hmac_sha1;
  auth.algo = sha1 ? RTE_CRYPTO_AUTH_SHA1_HMAC : RTE_CRYPTO_AUTH_SHA256_HMAC;
  auth.key = {p.auth_key.data(), static_cast<uint16_t>(p.auth_key.size())};
  auth.digest_length = sha1 ? 12 : 16;
  (seals ? t.cipher : t.auth).next = seals ? &t.auth : &t.cipher;
  t.first = seals ? &t.cipher : &t.auth;
}

struct __attribute__((packed)) EspHeader {
  uint32_t spi;
  uint32_t sequence;
};
static_assert(sizeof(EspHeader) == 8);

constexpr uint16_t kTrailer = 2;  ///< padding length and next header

}  // namespace

/// A packet of the current burst.
struct EspSa::Job {
  uint64_t sequence;
  uint8_t* esp;   ///< the ESP header
  uint16_t size;  ///< of ESP header, IV and ciphertext
  std::array<uint8_t, 16> iv;
  std::array<uint8_t, 12> aad;
  /// The integrity check value, received or computed. A device may write a whole digest.
  std::array<uint8_t, 64> icv;
};

/// A burst in rte_cryptodev's form.
struct EspSa::Batch {
  std::array<Job, kMaxBurst> jobs;
  std::array<rte_crypto_vec, kMaxBurst> vectors;
  std::array<rte_crypto_sgl, kMaxBurst> lists;
  std::array<rte_crypto_va_iova_ptr, kMaxBurst> ivs;
  std::array<rte_crypto_va_iova_ptr, kMaxBurst> icvs;
  std::array<rte_crypto_va_iova_ptr, kMaxBurst> aads;
  std::array<int32_t, kMaxBurst> status;
};

bool is_cipher_key_size(size_t octets) {
  return octets == 16 || octets == 24 || octets == 32;
}

size_t auth_key_size(Suite suite) {
  switch (suite) {
    case Suite::aes_gcm:
      return 0;
    case Suite::aes_cbc_hmac_sha1:
      return 20;
    case Suite::aes_cbc_hmac_sha256:
      return 32;
  }
  return 0;
}

Result<std::unique_ptr<EspSa>> EspSa::make(const EspParameters& parameters) {
  if (!is_cipher_key_size(parameters.key.size())) {
    return fail("an AES key has 16, 24 or 32 octets, not {}", parameters.key.size());
  }
  if (parameters.auth_key.size() != auth_key_size(parameters.suite)) {
    return fail("the HMAC key has {} octets, not {}", auth_key_size(parameters.suite),
                parameters.auth_key.size());
  }
  std::unique_ptr<EspSa> sa(new EspSa(parameters));
  if (auto opened = sa->open_device(); !opened) return tl::unexpected(opened.error());
  if (auto opened = sa->open_session(); !opened) return tl::unexpected(opened.error());
  return sa;
}

EspSa::EspSa(EspParameters parameters)
    : parameters_(std::move(parameters)),
      window_(parameters_.replay_window, parameters_.extended_sequence) {
  const bool gcm = parameters_.suite == Suite::aes_gcm;
  iv_size_ = gcm ? 8 : kCbcIv;
  icv_size_ = parameters_.suite == Suite::aes_cbc_hmac_sha1 ? 12 : 16;
  block_ = gcm ? 4 : 16;
  outer_.version_ihl = 0x45;
  outer_.ttl = 64;
  outer_.proto = packet::kProtoEsp;
  outer_.src = packet::swap32(parameters_.outer_src);
  outer_.dst = packet::swap32(parameters_.outer_dst);
  outer_.checksum = packet::checksum({reinterpret_cast<const uint8_t*>(&outer_), sizeof outer_});
  if (gcm) return;
  const bool seals = parameters_.direction == Direction::seal;
  offsets_.ofs.cipher.head =
      static_cast<uint16_t>(sizeof(EspHeader) + (seals ? size_t{0} : kCbcIv));
  offsets_.ofs.cipher.tail = parameters_.extended_sequence ? 4 : 0;
}

EspSa::~EspSa() {
  if (session_ != nullptr) rte_cryptodev_sym_session_free(device_id_, session_);
  if (!device_.empty()) {
    rte_cryptodev_stop(device_id_);
    rte_cryptodev_close(device_id_);
  }
  rte_mempool_free(sessions_);
  if (!device_.empty()) rte_eal_hotplug_remove("vdev", device_.c_str());
}

Result<> EspSa::open_device() {
  static unsigned serial = 0;  // the control thread makes them; names are unique in a process
  const char* driver = parameters_.suite == Suite::aes_gcm ? "crypto_aesni_gcm" : "crypto_aesni_mb";
  const auto name = fmt::format("{}_esp{}", driver, serial++);
  if (Result<> loaded = eal::load_driver_for(name); !loaded) return loaded;
  if (const int error = rte_eal_hotplug_add("vdev", name.c_str(), "max_nb_queue_pairs=1");
      error != 0) {
    return fail("no crypto device {}: {}; it needs a processor with AES-NI and DPDK's {} driver",
                name, rte_strerror(-error), driver);
  }
  device_ = name;
  const int id = rte_cryptodev_get_dev_id(name.c_str());
  if (id < 0) return fail("no crypto device {} after its creation", name);
  device_id_ = static_cast<uint8_t>(id);
  rte_cryptodev_info info{};
  rte_cryptodev_info_get(device_id_, &info);
  if ((info.feature_flags & RTE_CRYPTODEV_FF_SYM_CPU_CRYPTO) == 0) {
    return fail("the crypto device {} doesn't support synchronous CPU crypto", name);
  }
  sessions_ = rte_cryptodev_sym_session_pool_create(
      fmt::format("{}_s", name.substr(sizeof "crypto_" - 1)).c_str(), 1,
      rte_cryptodev_sym_get_private_session_size(device_id_), 0, 0, SOCKET_ID_ANY);
  if (sessions_ == nullptr) return fail("no memory for a crypto session; raise eal.memory_mb");
  // The queue is never used, but the driver allocates its session resources with it.
  rte_cryptodev_config config{};
  config.socket_id = SOCKET_ID_ANY;
  config.nb_queue_pairs = 1;
  rte_cryptodev_qp_conf queue{};
  queue.nb_descriptors = kQueueSize;
  queue.mp_session = sessions_;
  int error = rte_cryptodev_configure(device_id_, &config);
  if (error == 0) error = rte_cryptodev_queue_pair_setup(device_id_, 0, &queue, SOCKET_ID_ANY);
  if (error == 0) error = rte_cryptodev_start(device_id_);
  if (error != 0) return fail("the crypto device {}: {}", name, rte_strerror(-error));
  return {};
}

Result<> EspSa::open_session() {
  Transforms transforms;
  if (parameters_.suite == Suite::aes_gcm) {
    set_gcm(parameters_, transforms);
  } else {
    set_cbc(parameters_, transforms);
  }
  session_ = rte_cryptodev_sym_session_create(device_id_, transforms.first, sessions_);
  if (session_ == nullptr) {
    return fail("{} doesn't support this suite: {}", device_, rte_strerror(rte_errno));
  }
  return {};
}

/// Prepends outer header, ESP header and IV; appends padding, trailer and space for the ICV.
bool EspSa::prepare_seal(rte_mbuf* packet, Job& job) noexcept {
  if (sequence_ == (parameters_.extended_sequence ? UINT64_MAX : UINT32_MAX)) return false;
  const uint32_t plain = rte_pktmbuf_pkt_len(packet) + kTrailer;
  const auto padding = static_cast<uint16_t>((block_ - plain % block_) % block_);
  const auto head =
      static_cast<uint16_t>(sizeof(packet::Ipv4Header) + sizeof(EspHeader) + iv_size_);
  // Four more octets for the upper half of an extended sequence number, which is authenticated but
  // not sent.
  const auto tail = static_cast<uint16_t>(padding + kTrailer + icv_size_);
  if (rte_pktmbuf_headroom(packet) < head || rte_pktmbuf_tailroom(packet) < tail + 4) return false;
  auto* trailer = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(packet, tail));
  auto* outer = reinterpret_cast<packet::Ipv4Header*>(rte_pktmbuf_prepend(packet, head));
  for (uint16_t i = 0; i < padding; ++i) trailer[i] = static_cast<uint8_t>(i + 1);
  trailer[padding] = static_cast<uint8_t>(padding);
  trailer[padding + 1] = kIpInIp;
  *outer = outer_;
  outer->total_length = packet::swap16(static_cast<uint16_t>(rte_pktmbuf_pkt_len(packet)));
  outer->checksum = packet::update16(outer->checksum, 0, outer->total_length);
  job.sequence = ++sequence_;
  job.esp = reinterpret_cast<uint8_t*>(outer + 1);
  job.size = static_cast<uint16_t>(rte_pktmbuf_pkt_len(packet) - sizeof *outer - icv_size_);
  packet::store_be32(job.esp, parameters_.spi);
  packet::store_be32(job.esp + 4, static_cast<uint32_t>(job.sequence));
  std::memset(job.esp + sizeof(EspHeader), 0, iv_size_);
  packet::store_be64(job.esp + sizeof(EspHeader), job.sequence);
  return true;
}

bool EspSa::prepare_open(rte_mbuf* packet, Job& job) noexcept {
  auto* ip = rte_pktmbuf_mtod(packet, packet::Ipv4Header*);
  const size_t header = (ip->version_ihl & 15U) * 4U;
  const size_t size = rte_pktmbuf_data_len(packet);
  const size_t least = header + sizeof(EspHeader) + iv_size_ + block_ + icv_size_;
  if (size < least || rte_pktmbuf_tailroom(packet) < 4) return false;
  job.esp = reinterpret_cast<uint8_t*>(ip) + header;
  job.size = static_cast<uint16_t>(size - header - icv_size_);
  if ((job.size - sizeof(EspHeader) - iv_size_) % block_ != 0) return false;
  job.sequence = window_.whole(packet::load_be32(job.esp + 4));
  if (!window_.may_be_new(job.sequence)) return false;
  std::memcpy(job.icv.data(), job.esp + job.size, icv_size_);
  return true;
}

/// Fills in the packet's pointers and offsets for the device.
void EspSa::describe(Job& job, Batch& batch, size_t index) noexcept {
  const bool gcm = parameters_.suite == Suite::aes_gcm;
  const bool seals = parameters_.direction == Direction::seal;
  const auto high = static_cast<uint32_t>(job.sequence >> 32);
  uint8_t* data = job.esp;
  uint32_t size = job.size;
  if (gcm) {
    const uint32_t before = sizeof(EspHeader) + iv_size_;
    std::memcpy(job.iv.data(), parameters_.salt.data(), parameters_.salt.size());
    std::memcpy(job.iv.data() + 4, job.esp + sizeof(EspHeader), iv_size_);
    std::memcpy(job.aad.data(), job.esp, 4);
    if (parameters_.extended_sequence) packet::store_be32(job.aad.data() + 4, high);
    std::memcpy(job.aad.data() + (parameters_.extended_sequence ? 8 : 4), job.esp + 4, 4);
    data += before;
    size -= before;
  } else {
    // On encryption the IV block is enciphered too, with an IV of zeroes.
    job.iv.fill(0);
    if (!seals) std::memcpy(job.iv.data(), job.esp + sizeof(EspHeader), iv_size_);
    if (parameters_.extended_sequence) {  // in place of the ICV: RFC 4303, 2.2.1
      packet::store_be32(job.esp + job.size, high);
      size += 4;
    }
  }
  batch.vectors[index] = {.base = data, .iova = 0, .len = size, .tot_len = size};
  batch.lists[index] = {.vec = &batch.vectors[index], .num = 1};
  batch.ivs[index] = {.va = job.iv.data(), .iova = 0};
  batch.icvs[index] = {.va = job.icv.data(), .iova = 0};
  batch.aads[index] = {.va = job.aad.data(), .iova = 0};
  batch.status[index] = 0;
}

void EspSa::finish_seal(const Job& job) const noexcept {
  std::memcpy(job.esp + job.size, job.icv.data(), icv_size_);
}

/// Removes everything but the inner packet: RFC 4303, 3.4.4.
bool EspSa::finish_open(rte_mbuf* packet, const Job& job) noexcept {
  const uint8_t* end = job.esp + job.size;
  const uint8_t padding = end[-2];
  const size_t cipher = job.size - sizeof(EspHeader) - iv_size_;
  if (end[-1] != kIpInIp || size_t{padding} + kTrailer > cipher) return false;
  for (uint8_t i = 0; i < padding; ++i) {
    if (end[i - kTrailer - padding] != i + 1) return false;
  }
  if (!window_.take(job.sequence)) return false;
  const auto* start = rte_pktmbuf_mtod(packet, const uint8_t*);
  rte_pktmbuf_trim(packet, static_cast<uint16_t>(icv_size_ + kTrailer + padding));
  rte_pktmbuf_adj(packet, static_cast<uint16_t>(job.esp - start + sizeof(EspHeader) + iv_size_));
  return true;
}

EspSa::Outcome EspSa::process(std::span<rte_mbuf*> packets) noexcept {
  const bool seals = parameters_.direction == Direction::seal;
  Batch batch;
  std::array<rte_mbuf*, kMaxBurst> ready;
  std::array<rte_mbuf*, kMaxBurst> refused;
  std::array<rte_mbuf*, kMaxBurst> failed;
  size_t count = 0;
  Outcome outcome{};
  for (rte_mbuf* packet : packets) {
    Job& job = batch.jobs[count];
    if (seals ? !prepare_seal(packet, job) : !prepare_open(packet, job)) {
      refused[outcome.refused++] = packet;
      continue;
    }
    describe(job, batch, count);
    ready[count++] = packet;
  }
  if (count > 0) {
    rte_crypto_sym_vec vector{};
    vector.num = static_cast<uint32_t>(count);
    vector.src_sgl = batch.lists.data();
    vector.iv = batch.ivs.data();
    vector.digest = batch.icvs.data();
    vector.aad = batch.aads.data();
    vector.status = batch.status.data();
    rte_cryptodev_sym_cpu_crypto_process(device_id_, session_, offsets_, &vector);
  }
  for (size_t i = 0; i < count; ++i) {
    if (batch.status[i] != 0 || (!seals && !finish_open(ready[i], batch.jobs[i]))) {
      failed[outcome.failed++] = ready[i];
      continue;
    }
    if (seals) finish_seal(batch.jobs[i]);
    packets[outcome.done++] = ready[i];
  }
  const auto behind = std::copy_n(refused.begin(), outcome.refused,
                                  packets.begin() + static_cast<ptrdiff_t>(outcome.done));
  std::copy_n(failed.begin(), outcome.failed, behind);
  return outcome;
}

}  // namespace headrace::vnf
