/* SPDX-License-Identifier: Apache-2.0
 *
 * A complete VNF in C that uses only libheadrace-port: forwards packets between two Headrace ports
 * without copying. An example, which the tests also run inside a virtual machine.
 *
 *     headrace-port-pass SOCKET PORT PORT            as a process
 *     headrace-port-pass --memory FILE PORT PORT     in a VM: FILE is the ivshmem device's BAR 2,
 *                                                    /sys/bus/pci/devices/0000:00:04.0/resource2
 *
 * On SIGTERM or SIGINT it prints its counters as one line of JSON and exits.
 */
#include <errno.h>
#include <fcntl.h>
#include <headrace_port.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BURST = 32, IDLE_ROUNDS = 256, IDLE_US = 50 };

struct direction {
  hrp_port* from;
  hrp_port* to;
  unsigned long long packets;
  unsigned long long octets;
};

static volatile sig_atomic_t ending;

static void end(int signal_number) {
  (void)signal_number;
  ending = 1;
}

/* Maps the whole file; NULL on failure. */
static void* map_file(const char* path, size_t* size) {
  struct stat status;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void* memory = MAP_FAILED;
  if (fstat(fd, &status) == 0) {
    *size = (size_t)status.st_size;
    memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Forwards up to a burst and returns its size. Waits while the ring is full: drops nothing. */
static uint32_t move(struct direction* way) {
  hrp_packet packets[BURST];
  const uint32_t count = hrp_rx(way->from, packets, BURST);
  for (uint32_t i = 0; i < count; ++i) way->octets += packets[i].length;
  for (uint32_t sent = 0; sent < count;) {
    /* Both ports are of one region, so the descriptor is valid for both. */
    const uint32_t now = hrp_forward(way->from, way->to, packets + sent, count - sent);
    sent += now;
    if (now != 0) continue;
    if (ending) {
      hrp_free(way->from, packets + sent, count - sent);
      way->packets += sent;
      return sent;
    }
    usleep(IDLE_US);
  }
  way->packets += count;
  return count;
}

int main(int argc, char** argv) {
  const int by_memory = argc == 5 && strcmp(argv[1], "--memory") == 0;
  if (argc != 4 && !by_memory) {
    fprintf(stderr, "usage: headrace-port-pass SOCKET|--memory FILE PORT PORT\n");
    return 2;
  }
  size_t size = 0;
  void* memory = NULL;
  if (by_memory && (memory = map_file(argv[2], &size)) == NULL) {
    fprintf(stderr, "headrace-port-pass: %s: %s\n", argv[2], strerror(errno));
    return 1;
  }
  hrp_port* ports[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    const char* name = argv[argc - 2 + i];
    const int error = by_memory ? hrp_attach_memory(memory, size, name, &ports[i])
                                : hrp_attach(argv[1], name, &ports[i]);
    if (error != 0) {
      fprintf(stderr, "headrace-port-pass: port %s: %s\n", name, strerror(-error));
      hrp_detach(ports[0]);
      return 1;
    }
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = end;
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);

  struct direction ways[2] = {{ports[0], ports[1], 0, 0}, {ports[1], ports[0], 0, 0}};
  for (unsigned idle = 0; !ending;) {
    const uint32_t moved = move(&ways[0]) + move(&ways[1]);
    idle = moved > 0 ? 0 : idle + 1;
    if (idle > IDLE_ROUNDS) usleep(IDLE_US);
  }
  hrp_detach(ports[0]);
  hrp_detach(ports[1]);
  printf("{\"packets\": [%llu, %llu], \"octets\": [%llu, %llu]}\n", ways[0].packets,
         ways[1].packets, ways[0].octets, ways[1].octets);
  return 0;
}
