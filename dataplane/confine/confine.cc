// SPDX-License-Identifier: Apache-2.0
#include "confine/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace headrace::confine {
namespace {

constexpr std::array<unsigned, 2> kNetCapabilities = {CAP_NET_ADMIN, CAP_NET_RAW};

tl::unexpected<Error> refused(std::string_view what) {
  return fail("{}: {}", what, std::strerror(errno));
}

Result<> join_cgroup(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return refused(file);
  const bool written = ::write(descriptor, "0", 1) == 1;  // 0: whoever writes
  Result<> done;
  if (!written) done = refused(file);
  ::close(descriptor);
  return done;
}

Result<> limit(const Confinement& confinement) {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return refused("RLIMIT_CORE");
  if (confinement.locked_mb != 0) {
    const rlim_t octets = confinement.locked_mb << 20U;
    const rlimit locked{.rlim_cur = octets, .rlim_max = octets};
    if (::setrlimit(RLIMIT_MEMLOCK, &locked) != 0) return refused("RLIMIT_MEMLOCK");
  }
  ::umask(077);
  return {};
}

/// Whether two links of /proc name the same namespace.
Result<bool> is_same(const std::string& one, const std::string& other) {
  struct stat a {};
  struct stat b {};
  if (::stat(one.c_str(), &a) != 0) return refused(one);
  if (::stat(other.c_str(), &b) != 0) return refused(other);
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Goes into the namespaces of a process; whether its network is that of its user namespace.
Result<bool> join(pid_t process) {
  const std::string place = fmt::format("/proc/{}/ns/", process);
  const Result<bool> is_ours = is_same(place + "user", "/proc/self/ns/user");
  if (!is_ours) return tl::unexpected(is_ours.error());
  // All are opened before the first is joined, after which there is no right to.
  std::vector<int> files;
  for (const char* name : {"user", "net", "ipc"}) {
    if (*is_ours && std::string_view(name) == "user") continue;
    files.push_back(::open((place + name).c_str(), O_RDONLY | O_CLOEXEC));
    if (files.back() < 0) return refused(place + name);
  }
  for (const int file : files) {
    if (::setns(file, 0) != 0) return refused("setns");
    ::close(file);
  }
  return !*is_ours;
}

Result<> wait_at(int descriptor) {
  char octet = 0;
  ssize_t got = 0;
  do {
    got = ::read(descriptor, &octet, 1);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return refused("waiting for the interfaces");
  if (got == 0) return fail("the node has ended meanwhile");
  ::close(descriptor);
  return {};
}

/// Gives up all capabilities but those of its network, which stay when a program is executed.
Result<> keep_net_capabilities() {
  uint32_t mask = 0;
  for (const unsigned number : kNetCapabilities) mask |= 1U << number;
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  sets[0] = {.effective = mask, .permitted = mask, .inheritable = mask};
  if (::syscall(SYS_capset, &header, sets.data()) != 0) return refused("capset");
  for (const unsigned number : kNetCapabilities) {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0) != 0) return refused("prctl");
  }
  return {};
}

Result<> become(uid_t user, bool has_own_network) {
  // Over the change of the user.
  if (has_own_network && ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return refused("prctl");
  if (::setresgid(user, user, user) != 0) return refused("setresgid");
  if (::setresuid(user, user, user) != 0) return refused("setresuid");
  return has_own_network ? keep_net_capabilities() : Result<>{};
}

}  // namespace

Result<> enter(const Confinement& confinement) {
  for (const std::string& file : confinement.cgroups) {
    if (Result<> joined = join_cgroup(file); !joined) return joined;
  }
  if (Result<> limited = limit(confinement); !limited) return limited;
  if (::setgroups(confinement.groups.size(), confinement.groups.data()) != 0) {
    return refused("setgroups");
  }
  bool has_own_network = confinement.waits_at.has_value();
  if (confinement.joins) {
    const Result<bool> joined = join(*confinement.joins);
    if (!joined) return tl::unexpected(joined.error());
    has_own_network = *joined;
  } else if (::unshare(CLONE_NEWNET | CLONE_NEWIPC | (has_own_network ? CLONE_NEWUSER : 0)) != 0) {
    return refused("unshare");
  }
  if (confinement.waits_at) {
    if (Result<> waited = wait_at(*confinement.waits_at); !waited) return waited;
  }
  if (Result<> become_user = become(confinement.user, has_own_network); !become_user) {
    return become_user;
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("prctl");
  return {};
}

}  // namespace headrace::confine
