// SPDX-License-Identifier: Apache-2.0
#include "eal/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_version.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/log.h"
#include "eal/drivers.h"
#include "eal/hugepages.h"
#include "eal/quick_start.h"
#include "eal/thread.h"

namespace headrace::eal {

namespace {

/// At its end EAL calls it an error that hugepage files are not there, which are unlinked when it
/// has started, so that none is left behind by a process that is killed.
bool is_no_error(std::string_view line) {
  return line.find("close_hugefile(): unlinking") != std::string_view::npos &&
         line.ends_with("No such file or directory");
}

/// What DPDK prints becomes a log line of the level that DPDK gave it. What it repeats (a memif
/// client that has no server yet, several times per second) shows once, then at level debug. The
/// stream's own lock is held by the caller, so `previous` needs none.
ssize_t write_log_line(void* /*cookie*/, const char* text, size_t size) {
  static std::string previous;
  std::string_view line(text, size);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\0')) line.remove_suffix(1);
  const int level = rte_log_cur_msg_loglevel();
  if (line.empty()) return static_cast<ssize_t>(size);
  if (line == previous || is_no_error(line)) {
    log::debug("dpdk: {}", line);
    return static_cast<ssize_t>(size);
  }
  previous = line;
  if (level <= static_cast<int>(RTE_LOG_ERR)) {
    log::error("dpdk: {}", line);
  } else if (level == static_cast<int>(RTE_LOG_WARNING)) {
    log::warn("dpdk: {}", line);
  } else if (level <= static_cast<int>(RTE_LOG_INFO)) {
    log::info("dpdk: {}", line);
  } else {
    log::debug("dpdk: {}", line);
  }
  return static_cast<ssize_t>(size);
}

/// The stream lives as long as the process: EAL's threads print until the very end.
Result<> redirect_log() {
  cookie_io_functions_t functions{};
  functions.write = write_log_line;
  std::FILE* stream = ::fopencookie(nullptr, "w", functions);
  if (stream == nullptr || rte_openlog_stream(stream) != 0) {
    return fail("EAL: cannot redirect its log");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Eal>> Eal::init(const EalOptions& options) {
  // DPDK's vhost-user and memif write to sockets whose peers may be gone.
  std::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<Eal> eal(new Eal(options));
  EalOptions& o = eal->options_;
  if (o.file_prefix.empty()) o.file_prefix = fmt::format("headrace-{}", ::getpid());
  if (Result<> pinned = pin_this_thread(o.main_cpu); !pinned) {
    return tl::unexpected(pinned.error());
  }

  const std::optional<HugepageMount> huge = find_hugepages();
  if (!o.allow_hugepages) {
    eal->reason_ = "hugepages not wanted";
  } else if (!huge) {
    eal->reason_ = "no writable hugetlbfs mount";
  } else if (huge->free_mb < o.memory_mb) {
    eal->reason_ = fmt::format("{} MiB of hugepages free at {}, {} MiB needed", huge->free_mb,
                               huge->path, o.memory_mb);
  } else {
    eal->pages_ = Pages::huge;
    eal->reason_ = fmt::format("{} MiB of hugepages free at {}", huge->free_mb, huge->path);
  }

  std::vector<std::string> arguments = {
      "headrace", "--file-prefix=" + o.file_prefix, fmt::format("--lcores=0@{}", o.main_cpu),
      fmt::format("-m{}", o.memory_mb), "--single-file-segments", "--no-telemetry",
      // EAL's default of 256 bits would hold back rte_fib and
      // packed virtio rings where AVX-512 is there.
      "--force-max-simd-bitwidth=512", "--log-level=" + o.log_level};
  if (eal->pages_ == Pages::huge) {
    arguments.push_back("--huge-dir=" + huge->path);
  } else {
    arguments.emplace_back("--no-huge");
  }
  // Real devices without an IOMMU, as in most VMs, need physical addresses, which only hugepages
  // have: EAL chooses by what it finds.
  if (!o.pci || eal->pages_ != Pages::huge) arguments.emplace_back("--iova-mode=va");
  if (o.pci) {
    // An allow-list with no real device: the bus is scanned, nothing is probed.
    arguments.emplace_back("--allow=0000:00:00.0");
  } else {
    arguments.emplace_back("--no-pci");
  }
  arguments.insert(arguments.end(), o.extra.begin(), o.extra.end());

  if (Result<> redirected = redirect_log(); !redirected) return tl::unexpected(redirected.error());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  // Buses of real devices look for them when EAL starts, and arguments may name any.
  const auto drivers = o.pci || !o.extra.empty() ? std::nullopt : driver_folder();
  if (drivers) {
    if (Result<> loaded = load_basic_drivers(*drivers); !loaded) {
      return tl::unexpected(loaded.error());
    }
  }
  const int initialized = [&argv, &drivers] {
    const QuickStart quick(drivers.value_or(""));
    return rte_eal_init(static_cast<int>(argv.size()), argv.data());
  }();
  if (initialized < 0) {
    return fail("EAL: {}; the log above says more ({}, {} MiB)", rte_strerror(rte_errno),
                eal->reason_, o.memory_mb);
  }
  eal->started_ = true;
  if (eal->pages_ == Pages::huge) unlink_hugepage_files(huge->path, o.file_prefix);
  log::info("EAL: {}, {} pages ({}), prefix {}", rte_version(),
            eal->pages_ == Pages::huge ? "huge" : "ordinary", eal->reason_, o.file_prefix);
  return eal;
}

Eal::~Eal() {
  if (!started_) return;  // another object's EAL may be running
  const std::filesystem::path run_dir(rte_eal_get_runtime_dir());
  rte_eal_cleanup();
  // EAL leaves its run-time directory behind; a stale one costs space and a later start's time.
  if (run_dir.filename() == options_.file_prefix) {
    std::error_code ignored;
    std::filesystem::remove_all(run_dir, ignored);
  }
}

nlohmann::json Eal::status() const {
  return {{"version", rte_version()},
          {"pages", pages_ == Pages::huge ? "huge" : "ordinary"},
          {"reason", reason_},
          {"file_prefix", options_.file_prefix},
          {"memory_mb", options_.memory_mb},
          {"main_cpu", options_.main_cpu}};
}

}  // namespace headrace::eal
