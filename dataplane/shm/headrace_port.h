/* SPDX-License-Identifier: Apache-2.0
 *
 * libheadrace-port: how a VNF reaches a Headrace switch through shared memory. C ABI, version 2.
 *
 * The memory. A region belongs to one trust group (a graph, unless told otherwise). It holds packet
 * buffers of one size and, for each port, rings. A packet moves by its description (hrp_packet):
 * from the switch to the VNF, on to the switch or, where the flow rules join two ports and nothing
 * else, straight to the next VNF. It is not copied on the way.
 *
 * Owning. A buffer has one owner at a time. hrp_rx() and hrp_alloc() make the caller the owner;
 * hrp_tx() and hrp_free() end that, for the numbers that they took. Touch only what you own.
 *
 * Threads. One thread at a time may use a port; different ports are independent. No call blocks,
 * allocates or makes a system call but hrp_attach(), hrp_detach() and hrp_is_connected().
 *
 * Cost. hrp_rx() and hrp_tx() cost each a burst one exchange of positions with the other end (two
 * cache lines) and one cache line for each 8 packets, plus a mark of an octet per packet in memory
 * of this port's own; the packets themselves are not touched. Call them with 16 packets or more
 * when there are so many. An idle VNF calls hrp_rx() now and then: that is how it follows when a
 * direct link is made or taken back.
 *
 * Touching packets. Lines that the core before has written come from its cache, which takes as long
 * as a hundred instructions each; ask for those of all packets of a burst before you use the first.
 * Where you will write, use the instruction that asks for a line to be written (prefetchw on
 * x86-64: -mprfchw makes __builtin_prefetch(at, 1) mean it; without the option it doesn't).
 *
 * A process attaches by the switch's Unix socket, and gets the region as a file descriptor. A VM
 * maps the same region as the BAR of an ivshmem-plain device and calls hrp_attach_memory().
 *
 *     hrp_port *port;
 *     int error = hrp_attach("/run/headrace/graph.shm", "vnf1:0", &port);
 *     for (;;) {
 *         hrp_packet packets[32];
 *         uint32_t count = hrp_rx(port, packets, 32);
 *         for (uint32_t i = 0; i < count; ++i)
 *             handle(hrp_data(port, &packets[i]), packets[i].length);
 *         uint32_t sent = hrp_tx(port, packets, count);
 *         hrp_free(port, packets + sent, count - sent);
 *     }
 */
#ifndef HEADRACE_PORT_H
#define HEADRACE_PORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HRP_VERSION_MAJOR 2
#define HRP_VERSION_MINOR 0

#pragma GCC visibility push(default)

typedef struct hrp_port hrp_port;

/* A packet: `length` octets from `begin` octets after the start of a buffer. The owner may change
 * both before sending it on (hrp_set() checks): headers are added by beginning earlier, and as many
 * octets as `begin` are free before. */
typedef struct hrp_packet {
  uint32_t buffer;
  uint16_t begin;
  uint16_t length;
} hrp_packet;

/* Attaches to port `name` by the switch's socket for the region. 0, or a negative errno: -ENOENT no
 * such port, -EBUSY it has a user, -EPROTO another major version of the ABI. */
int hrp_attach(const char* socket_path, const char* name, hrp_port** port);

/* The same for memory that is mapped already, as by ivshmem. */
int hrp_attach_memory(void* memory, size_t size, const char* name, hrp_port** port);

/* Gives back all that the port still holds, and frees `port`. */
void hrp_detach(hrp_port* port);

/* Takes up to `room` received packets; how many. The caller owns them. Each is inside its buffer.
 */
uint32_t hrp_rx(hrp_port* port, hrp_packet* packets, uint32_t room);

/* Sends a prefix of `packets`; its length. The rest stays the caller's. */
uint32_t hrp_tx(hrp_port* port, const hrp_packet* packets, uint32_t count);

/* Sends packets that came in by port `from` (or were allocated there) out of port `to`; else as
 * hrp_tx(). Both ports must be of one region; 0 is sent if they are not. */
uint32_t hrp_forward(hrp_port* from, hrp_port* to, const hrp_packet* packets, uint32_t count);

/* 0 once the switch is gone (or has removed the port): detach, and attach again. A system call. */
int hrp_is_connected(const hrp_port* port);

/* Takes up to `count` fresh buffers; how many there were. Their length is 0, and they begin after
 * some headroom. */
uint32_t hrp_alloc(hrp_port* port, hrp_packet* packets, uint32_t count);

/* Gives buffers back. */
void hrp_free(hrp_port* port, const hrp_packet* packets, uint32_t count);

/* The first octet of a packet. */
uint8_t* hrp_data(const hrp_port* port, const hrp_packet* packet);

/* Sets where a packet begins, and its length. -EINVAL if it would not fit: nothing is changed. */
int hrp_set(const hrp_port* port, hrp_packet* packet, uint32_t begin, uint32_t length);
uint32_t hrp_room(const hrp_port* port); /* octets of a buffer, headroom included */

/* 1 while packets go straight to the next VNF, else 0. A VNF need not care. */
int hrp_is_direct(const hrp_port* port);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
