// SPDX-License-Identifier: Apache-2.0
// DPDK's environment (EAL) as an object: made once per process, cleaned up by its destructor.
//
// What it decides, and why:
// * Only a main lcore. Our workers are plain threads that register themselves (thread.h), so that
//   their number can change while the program runs; EAL lcores cannot.
// * The calling thread is pinned to `main_cpu` first. EAL gives its own threads (interrupts,
//   vhost events, memif) the CPUs that the process starts with less those of lcores; without the
//   pin they would land on a worker's core.
// * Hugepages where they are reserved, free and mounted, else ordinary pages; pages() and reason()
//   say which and why. Their files are unlinked as soon as EAL has mapped them, so that a killed
//   process gives its memory back. (EAL's own --huge-unlink excludes --single-file-segments.)
// * --single-file-segments always: virtio-user and memif zero-copy pass memory to the peer as file
//   descriptors, at most eight of them.
// * Never --in-memory: net_memif needs EAL's multi-process channel.
// * EAL's log lines come out through base/log.h.
//
// Thread safety: init() once, from the main thread, before others start.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace headrace::eal {

struct EalOptions {
  /// Unique among the running DPDK processes of the machine; empty: "headrace-<pid>".
  std::string file_prefix;
  uint32_t main_cpu = 0;     ///< CPU of the calling thread and of all of EAL's own threads
  uint32_t memory_mb = 256;  ///< for mbufs and all else that DPDK allocates; MiB
  bool allow_hugepages = true;
  /// Scan the PCI bus. No device is taken by that: ports name the addresses that they want.
  bool pci = false;
  std::string log_level = "notice";  ///< EAL's: debug, info, notice, warning, error
  std::vector<std::string> extra{};  ///< further EAL arguments, as they are
};

class Eal {
 public:
  enum class Pages : uint8_t { huge, ordinary };

  /// Starts DPDK. Fails with EAL's reason; a second call in one process fails too.
  static Result<std::unique_ptr<Eal>> init(const EalOptions& options);

  /// Cleans up: devices still open are closed, files in the run-time directory removed.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  [[nodiscard]] Pages pages() const { return pages_; }
  /// Why these pages: "1024 MiB of hugepages free at /dev/hugepages".
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// {"version","pages","reason","file_prefix","memory_mb","main_cpu"}: for ping and OVSDB.
  [[nodiscard]] nlohmann::json status() const;

 private:
  explicit Eal(const EalOptions& options) : options_(options) {}

  EalOptions options_;
  Pages pages_{Pages::ordinary};
  std::string reason_;
  bool started_{false};
};

}  // namespace headrace::eal
