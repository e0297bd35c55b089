/* SPDX-License-Identifier: Apache-2.0
 *
 * libheadrace-port: connects a VNF to a Headrace switch through shared memory. C ABI, version 2.
 *
 * Memory. A region belongs to one trust group (by default a graph). It contains packet buffers of
 * one size and rings for each port. A packet is passed by its descriptor (hrp_packet) and not
 * copied: from the switch to the VNF, and on to the switch or, where the flow rules connect two
 * ports exclusively, directly to the next VNF.
 *
 * Ownership. A buffer has one owner at a time. hrp_rx() and hrp_alloc() make the caller the owner;
 * hrp_tx() and hrp_free() end that for the packets that they accepted. Access only buffers that you
 * own.
 *
 * Threads. One thread at a time may use a port; different ports are independent. No call blocks,
 * allocates or makes a system call except hrp_attach(), hrp_detach() and hrp_is_connected().
 *
 * Cost. Each hrp_rx() and hrp_tx() exchanges positions with the other end (two cache lines) and
 * transfers one cache line for each 8 packets. The packets themselves are not accessed. Use bursts
 * of 16 packets or more where possible. Cheapest is to send or free what one hrp_rx() returned, in
 * the same order, before the next: otherwise a mark of one octet per packet is written, in memory
 * of this port. An idle VNF must call hrp_rx() regularly: requests to make or break a direct link
 * are processed there.
 *
 * Packet data. Lines last written by another core come from its cache, which takes as long as a
 * hundred instructions each; prefetch the lines of all packets of a burst before accessing the
 * first. Before writing, prefetch for writing (prefetchw on x86-64: __builtin_prefetch(at, 1)
 * compiles to it only with -mprfchw).
 *
 * A process attaches through the switch's Unix socket, and gets the region as a file descriptor. A
 * VM maps the same region as the BAR of an ivshmem-plain device and calls hrp_attach_memory().
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
 * both before sending it on (hrp_set() checks): headers are prepended by decreasing `begin`,
 * which is also the number of octets available for them. */
typedef struct hrp_packet {
  uint32_t buffer;
  uint16_t begin;
  uint16_t length;
} hrp_packet;

/* Attaches to port `name` through the switch's socket for the region. 0, or a negative errno:
 * -ENOENT no such port, -EBUSY it has a user, -EPROTO another major version of the ABI. */
int hrp_attach(const char* socket_path, const char* name, hrp_port** port);

/* The same for memory that is mapped already, e.g. by ivshmem. */
int hrp_attach_memory(void* memory, size_t size, const char* name, hrp_port** port);

/* Returns all buffers that the port still holds, and frees `port`. */
void hrp_detach(hrp_port* port);

/* Returns the number of packets received, at most `room`. The caller owns them. Each is inside its
 * buffer. */
uint32_t hrp_rx(hrp_port* port, hrp_packet* packets, uint32_t room);

/* Sends a prefix of `packets` and returns its length. The caller still owns the rest. */
uint32_t hrp_tx(hrp_port* port, const hrp_packet* packets, uint32_t count);

/* As hrp_tx(), for packets that were received on (or allocated from) port `from` and are sent on
 * port `to`. If the ports are of different regions, nothing is sent. */
uint32_t hrp_forward(hrp_port* from, hrp_port* to, const hrp_packet* packets, uint32_t count);

/* 0 once the switch has exited (or has removed the port): detach, and attach again. A system call.
 */
int hrp_is_connected(const hrp_port* port);

/* Allocates up to `count` buffers and returns their number. Their length is 0, and they begin after
 * some headroom. */
uint32_t hrp_alloc(hrp_port* port, hrp_packet* packets, uint32_t count);

/* Frees buffers. */
void hrp_free(hrp_port* port, const hrp_packet* packets, uint32_t count);

/* The first octet of a packet. */
uint8_t* hrp_data(const hrp_port* port, const hrp_packet* packet);

/* Sets where a packet begins, and its length. -EINVAL if it would not fit: nothing is changed. */
int hrp_set(const hrp_port* port, hrp_packet* packet, uint32_t begin, uint32_t length);
uint32_t hrp_room(const hrp_port* port); /* octets of a buffer, headroom included */

/* 1 while packets go directly to the next VNF, else 0. For information only. */
int hrp_is_direct(const hrp_port* port);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
