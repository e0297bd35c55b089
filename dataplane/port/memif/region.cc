// SPDX-License-Identifier: Apache-2.0
#include "port/memif/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace headrace::port::memif {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Region::~Region() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

Result<Region> Region::map_all(int file, uint64_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (base == MAP_FAILED) return fail("{} bytes cannot be mapped: {}", size, std::strerror(errno));
  return Region(static_cast<uint8_t*>(base), size);
}

Result<std::pair<Region, FileDescriptor>> Region::make(uint64_t size) {
  FileDescriptor file(::memfd_create("headrace-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 ||
      ::fallocate(file.get(), 0, 0, static_cast<off_t>(size)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return fail("no {} bytes of shared memory: {}", size, std::strerror(errno));
  }
  Result<Region> region = map_all(file.get(), size);
  if (!region) return tl::unexpected(region.error());
  return std::pair(std::move(*region), std::move(file));
}

Result<Region> Region::map(const FileDescriptor& file, uint64_t size, uint64_t most, bool trusted) {
  if (size > most) {
    return fail("{} bytes, {} more than options:memory-limit leaves", size, size - most);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail("no file: {}", std::strerror(errno));
  if (size == 0 || static_cast<uint64_t>(status.st_size) < size) {
    return fail("the file has {} bytes of {}", status.st_size, size);
  }
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (!trusted && (seals < 0 || (seals & F_SEAL_SHRINK) == 0)) {
    return fail("the memory can shrink; seal it (F_SEAL_SHRINK)");
  }
  // Whether the file is sparse, its blocks do not say: they may be behind `size`.
  const int error = ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size));
  if (error != 0 && !(trusted && errno == EOPNOTSUPP)) {
    return fail("there is no memory for all of its {} bytes: {}", size, std::strerror(errno));
  }
  return map_all(file.get(), size);
}

}  // namespace headrace::port::memif
