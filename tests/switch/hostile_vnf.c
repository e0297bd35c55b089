/* SPDX-License-Identifier: Apache-2.0
 *
 * A VNF that sends packets to a station which the rules let through, and then changes their
 * addresses and lengths to and fro as fast as it can. Usage: SOCKET PORT BURSTS. Prints how many
 * packets it sent.
 */
#include <headrace_port.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURST = 32, LENGTH = 400, TIMES = 200 };

/* Writes the frame's addresses, and an IPv4 header with this total length. */
static void write_header(uint8_t* frame, uint8_t station, uint16_t total) {
  static const uint8_t rest[] = {2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0};
  const uint8_t to[] = {2, 0, 0, 0, 0, station};
  memcpy(frame, to, sizeof to);
  memcpy(frame + 6, rest, sizeof rest);
  frame[16] = (uint8_t)(total >> 8);
  frame[17] = (uint8_t)total;
}

int main(int argc, char** argv) {
  hrp_port* port = NULL;
  if (argc != 4) return 2;
  const int error = hrp_attach(argv[1], argv[2], &port);
  if (error != 0) {
    fprintf(stderr, "%s: %s\n", argv[2], strerror(-error));
    return 1;
  }
  unsigned long sent = 0;
  for (long bursts = atol(argv[3]); bursts > 0;) {
    hrp_packet packets[BURST];
    const uint32_t taken = hrp_alloc(port, packets, BURST);
    if (taken == 0) {
      usleep(10);
      continue;
    }
    --bursts;
    uint8_t* frames[BURST];
    for (uint32_t i = 0; i < taken; ++i) {
      hrp_set(port, &packets[i], packets[i].begin, LENGTH);
      frames[i] = hrp_data(port, &packets[i]);
      memset(frames[i], 0, LENGTH);
      write_header(frames[i], 0xaa, LENGTH - 14);
    }
    const uint32_t now = hrp_tx(port, packets, taken);
    sent += now;
    hrp_free(port, packets + now, taken - now);
    for (uint32_t times = 0; times < TIMES; ++times) {
      for (uint32_t i = 0; i < now; ++i) {
        if (times % 2 == 0) {
          write_header(frames[i], 0xbb, 0xffff);
        } else {
          write_header(frames[i], 0xaa, LENGTH - 14);
        }
        __asm__ volatile("" ::: "memory");
      }
    }
  }
  hrp_detach(port);
  printf("%lu\n", sent);
  return 0;
}
