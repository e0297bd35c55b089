// SPDX-License-Identifier: Apache-2.0
#include "shm/region.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace headrace::shm {
namespace {

constexpr size_t kHugePage = 2 << 20;

constexpr uint64_t align(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

/// A sealed memory file of `size` octets, mapped completely; nothing if the kernel fails to provide
/// it.
std::span<uint8_t> make_file(const std::string& name, size_t size, unsigned flags, int& fd) {
  fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd < 0) return {};
  void* base = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(size)) == 0) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  }
  if (base == MAP_FAILED ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    if (base != MAP_FAILED) munmap(base, size);
    close(std::exchange(fd, -1));
    errno = error;
    return {};
  }
  return {static_cast<uint8_t*>(base), size};
}

}  // namespace

Mapping::~Mapping() {
  if (!octets_.empty()) munmap(octets_.data(), octets_.size());
  if (fd_ >= 0) close(fd_);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(octets_, other.octets_);
  std::swap(hugepages_, other.hugepages_);
  return *this;
}

Result<Mapping> Mapping::create(const std::string& name, size_t size, bool hugepages) {
  Mapping made;
  if (hugepages) {
    made.octets_ = make_file(name, align(size, kHugePage), MFD_HUGETLB | MFD_HUGE_2MB, made.fd_);
    made.hugepages_ = !made.octets_.empty();
  }
  if (made.octets_.empty()) {
    made.octets_ = make_file(name, align(size, 4096), 0, made.fd_);
  }
  if (made.octets_.empty()) {
    return fail("shared region {}: {} octets could not be allocated: {}; use fewer buffers", name,
                size, std::strerror(errno));
  }
  return made;
}

Result<Mapping> Mapping::open(int fd) {
  Mapping opened;
  opened.fd_ = fd;
  struct stat status {};
  if (fstat(fd, &status) != 0 || status.st_size <= 0) return fail("not a region of shared memory");
  const auto size = static_cast<size_t>(status.st_size);
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return fail("a region could not be mapped: {}", std::strerror(errno));
  opened.octets_ = {static_cast<uint8_t*>(base), size};
  return opened;
}

Result<Region> Region::create(const RegionConfig& config) {
  if (config.n_ports == 0 || config.n_ports > kMaxPorts) {
    return fail("shared region {}: {} ports; it can have 1 to {}", config.name, config.n_ports,
                kMaxPorts);
  }
  if (config.n_buffers == 0 || config.n_buffers > 1u << 24) {
    return fail("shared region {}: {} buffers; it can have 1 to {}", config.name, config.n_buffers,
                1u << 24);
  }
  if (config.buffer_room < kHeadroom + 64 || config.buffer_room > kMaxStride) {
    return fail("shared region {}: buffers of {} octets; they can have {} to {}", config.name,
                config.buffer_room, kHeadroom + 64, kMaxStride);
  }
  if (!std::has_single_bit(config.ring_capacity) || config.ring_capacity < 64 ||
      config.ring_capacity > 1u << 16) {
    return fail("shared region {}: rings of {} slots; give a power of two from 64 to 65536",
                config.name, config.ring_capacity);
  }
  Region region;
  region.config_ = config;
  region.pool_capacity_ = std::bit_ceil(config.n_buffers);
  region.stride_ = static_cast<uint32_t>(align(config.buffer_room, kLine)) | kLine;
  region.rings_at_ =
      align(sizeof(RegionHeader) + uint64_t{config.n_ports} * sizeof(PortBlock), kLine);
  region.rings_of_port_ =
      3 * packet_ring_octets(config.ring_capacity) + 2 * number_ring_octets(region.pool_capacity_);
  region.held_at_ = region.rings_at_ + config.n_ports * region.rings_of_port_;
  region.buffers_at_ = align(region.held_at_ + uint64_t{config.n_ports} * config.n_buffers, 4096);
  const uint64_t size = region.buffers_at_ + uint64_t{config.n_buffers} * region.stride_;
  auto mapping = Mapping::create(config.name, config.power_of_two ? std::bit_ceil(size) : size,
                                 config.hugepages);
  if (!mapping) return tl::unexpected(mapping.error());
  region.mapping_ = std::move(*mapping);
  region.lay_out();
  return region;
}

void Region::lay_out() {
  names_ = std::make_unique<std::array<Name, kMaxPorts>>();
  for (uint32_t i = 0; i < config_.n_ports; ++i) new (&port(i)) PortBlock{};
  restore();
}

void Region::restore() {
  new (mapping_.octets().data()) RegionHeader{
      .magic = kMagic,
      .version_major = kLayoutVersion,
      .version_minor = 0,
      .n_ports = config_.n_ports,
      .size = mapping_.octets().size(),
      .ports_at = sizeof(RegionHeader),
      .buffers_at = buffers_at_,
      .n_buffers = config_.n_buffers,
      .buffer_stride = stride_,
      .ring_capacity = config_.ring_capacity,
      .pool_capacity = pool_capacity_,
      .reserved = {},
  };
  for (uint32_t i = 0; i < config_.n_ports; ++i) {
    write_name(i);
    write_places(i);
  }
}

void Region::name_port(uint32_t number, std::string_view name) {
  std::array<uint64_t, kNameSize / sizeof(uint64_t)> words{};
  std::memcpy(words.data(), name.data(), std::min<size_t>(name.size(), kNameSize - 1));
  Name& kept = (*names_)[number];
  for (size_t i = 0; i < words.size(); ++i) kept[i].store(words[i], std::memory_order_relaxed);
  write_name(number);
}

void Region::write_name(uint32_t number) {
  const Name& kept = (*names_)[number];
  char* at = port(number).name;
  for (size_t i = 0; i < kept.size(); ++i) {
    const uint64_t word = kept[i].load(std::memory_order_relaxed);
    std::memcpy(at + i * sizeof word, &word, sizeof word);
  }
}

void Region::write_places(uint32_t number) {
  const auto place = [base = mapping_.octets().data()](const void* at) {
    return static_cast<uint64_t>(static_cast<const uint8_t*>(at) - base);
  };
  PortBlock& block = port(number);
  block.to_vnf_at = place(to_vnf(number));
  block.from_vnf_at = place(from_vnf(number));
  block.fill_at = place(fill(number));
  block.completion_at = place(completion(number));
  block.direct_at = place(direct(number));
  block.held_at = place(held(number).data());
}

PortBlock& Region::port(uint32_t port) const {
  uint8_t* at = mapping_.octets().data() + sizeof(RegionHeader) + port * sizeof(PortBlock);
  return *reinterpret_cast<PortBlock*>(at);
}

uint8_t* Region::octets(uint32_t buffer) const {
  return mapping_.octets().data() + buffers_at_ + uint64_t{buffer} * stride_;
}

std::span<uint8_t> Region::held(uint32_t port) const {
  uint8_t* at = mapping_.octets().data() + held_at_ + uint64_t{port} * config_.n_buffers;
  return {at, config_.n_buffers};
}

uint64_t Region::port_rings_at(uint32_t port) const {
  return rings_at_ + port * rings_of_port_;
}

void* Region::ring(uint32_t port, uint32_t which) const {
  return mapping_.octets().data() + port_rings_at(port) +
         which * packet_ring_octets(config_.ring_capacity);
}

void* Region::fill(uint32_t port) const {
  return ring(port, 3);
}

void* Region::completion(uint32_t port) const {
  return static_cast<uint8_t*>(ring(port, 3)) + number_ring_octets(pool_capacity_);
}

}  // namespace headrace::shm
