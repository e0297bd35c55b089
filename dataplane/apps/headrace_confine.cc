// SPDX-License-Identifier: Apache-2.0
// headrace-confine: becomes a program as another user, without a way back to privileges. The node
// starts VNFs by it; see confine/confine.h.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "confine/confine.h"

int main(int argc, char** argv) {
  char** const end = argv + argc;
  // The command is no business of the parser, which takes a word in brackets for a list.
  char** const dashes = std::find(argv, end, std::string_view("--"));
  headrace::confine::Confinement confinement;
  CLI::App app("Becomes a program as another user, in control groups, without privileges.");
  app.footer("headrace-confine OPTIONS -- PROGRAM ARGUMENT...");
  app.add_option("--user", confinement.user, "user and group by number")->required();
  app.add_option("--group", confinement.groups, "a further group; may be repeated");
  app.add_option("--cgroup", confinement.cgroups,
                 "a control group's cgroup.procs; may be repeated");
  app.add_option("--waits-at", confinement.waits_at,
                 "a descriptor; at an octet from it the user namespace is ready");
  app.add_option("--locked-mb", confinement.locked_mb, "memory that it may lock");
  app.add_option("--joins", confinement.joins, "a process whose namespaces it shares");
  CLI11_PARSE(app, static_cast<int>(dashes - argv), argv);
  if (end - dashes < 2) {
    std::fprintf(stderr, "headrace-confine: no program; write it after --\n");
    return 1;
  }
  char** const command = dashes + 1;
  if (const auto entered = headrace::confine::enter(confinement); !entered) {
    std::fprintf(stderr, "%s: %s\n", *command, entered.error().message.c_str());
    return 1;
  }
  ::execvp(*command, command);
  std::fprintf(stderr, "%s: %s\n", *command, std::strerror(errno));
  return 1;
}
