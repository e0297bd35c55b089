// SPDX-License-Identifier: Apache-2.0
#include "confine/confine.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

namespace headrace::confine {
namespace {

constexpr uid_t kUser = 1'900'000'001;

ino_t network() {
  struct stat found {};
  return ::stat("/proc/self/ns/net", &found) == 0 ? found.st_ino : 0;
}

/// What a child process, which never returns, gives as its exit code.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class ConfineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: gives it up";
  }
};

TEST_F(ConfineTest, LeavesRootAndTheNetworkForGood) {
  const ino_t before = network();
  EXPECT_EQ(0, in_child([before] {
              if (!enter({.user = kUser, .groups = {kUser + 1}})) return 1;
              uid_t real = 0;
              uid_t effective = 0;
              uid_t saved = 0;
              ::getresuid(&real, &effective, &saved);
              if (real != kUser || effective != kUser || saved != kUser) return 2;
              std::array<gid_t, 4> groups{};
              if (::getgroups(groups.size(), groups.data()) != 1 || groups[0] != kUser + 1)
                return 3;
              if (::setuid(0) == 0) return 4;
              if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return 5;
              return network() != before ? 0 : 6;
            }));
}

TEST_F(ConfineTest, KeepsTheRightToItsNetworkInAUserNamespaceOfItsOwn) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[1]);
    if (!enter({.user = kUser, .waits_at = pipe[0]})) ::_exit(1);
    // CAP_NET_ADMIN as an ambient capability.
    ::_exit(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 12, 0, 0) == 1 ? 0 : 2);
  }
  struct stat ours {};
  struct stat its {};
  ::stat("/proc/self/ns/user", &ours);
  do {
    ::stat(fmt::format("/proc/{}/ns/user", child).c_str(), &its);
  } while (its.st_ino == ours.st_ino);
  const auto map = [child](const char* file) {
    const std::string path = fmt::format("/proc/{}/{}", child, file);
    const std::string line = fmt::format("{0} {0} 1\n", kUser);
    std::FILE* stream = std::fopen(path.c_str(), "w");
    if (stream == nullptr) return false;
    std::fputs(line.c_str(), stream);
    return std::fclose(stream) == 0;
  };
  EXPECT_TRUE(map("uid_map"));
  EXPECT_TRUE(map("gid_map"));
  EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(ConfineTest, SaysWhatIsRefused) {
  EXPECT_EQ(0, in_child([] {
              const auto done = enter({.user = kUser, .cgroups = {"/no/such/cgroup.procs"}});
              const std::string expected = "/no/such/cgroup.procs: No such file or directory";
              return !done && done.error().message == expected ? 0 : 1;
            }));
  EXPECT_EQ(0, in_child([] {
              const auto done = enter({.user = kUser, .joins = 0x7fff'fff0});
              return !done && done.error().message.starts_with("/proc/2147483632/ns/") ? 0 : 1;
            }));
}

TEST_F(ConfineTest, EndsWithTheNode) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ::close(pipe[1]);
  EXPECT_EQ(0, in_child([&pipe] {
              const auto done = enter({.user = kUser, .waits_at = pipe[0]});
              return !done && done.error().message == "the node has ended meanwhile" ? 0 : 1;
            }));
  ::close(pipe[0]);
}

}  // namespace
}  // namespace headrace::confine
