// SPDX-License-Identifier: Apache-2.0
// Ports of type `memif`: shared memory with another process on this machine, by libmemif, VPP or
// DPDK's net_memif. The client's memory holds the rings and buffers; the server copies. With
// zero-copy=true on the client its own mbufs are shared (DPDK 22.11 does so for clients only).
#include <bit>

#include "port/kinds.h"

namespace headrace::port {

Result<EthdevRequest> memif_request(const PortConfig& config, Options& options) {
  const Result<std::string> socket = options.required("socket");
  if (!socket) return tl::unexpected(socket.error());
  const Result<uint32_t> id = options.number("id", 0, 0, UINT32_MAX);
  if (!id) return tl::unexpected(id.error());
  const Result<std::string> role = options.plain("role", "server");
  if (!role) return tl::unexpected(role.error());
  if (*role != "server" && *role != "client") {
    return fail("{}: options:role is '{}': it must be server or client", config.name, *role);
  }
  const Result<std::string> secret = options.plain("secret", "");
  if (!secret) return tl::unexpected(secret.error());
  if (secret->size() > 23) {
    return fail("{}: options:secret has {} characters: at most 23 fit", config.name,
                secret->size());
  }
  const Result<uint32_t> ring_size = options.power_of_two("ring-size", 1024, 32, 16384);
  if (!ring_size) return tl::unexpected(ring_size.error());
  const Result<uint32_t> buffer_size = options.number("buffer-size", 2048, 128, 65535);
  if (!buffer_size) return tl::unexpected(buffer_size.error());
  const Result<bool> zero_copy = options.flag("zero-copy", false);
  if (!zero_copy) return tl::unexpected(zero_copy.error());
  if (*zero_copy && *role != "client") {
    return fail("{}: options:zero-copy is for role=client: the client's memory is shared",
                config.name);
  }

  EthdevRequest request;
  request.devargs =
      fmt::format("{},role={},id={},socket={},socket-abstract=no,rsize={},bsize={}{}{}",
                  vdev_name("net_memif", config.name), *role, *id, *socket,
                  std::countr_zero(*ring_size), *buffer_size,
                  secret->empty() ? "" : ",secret=" + *secret, *zero_copy ? ",zero-copy=yes" : "");
  request.rx_descriptors = request.tx_descriptors = static_cast<uint16_t>(*ring_size);
  request.tx_queue_per_worker = false;
  request.io_knows_link = true;
  // net_memif refuses to start a client whose server does not listen yet.
  request.start_needs_peer = *role == "client";
  request.status["socket"] = *socket;
  request.status["id"] = std::to_string(*id);
  request.status["role"] = *role;
  request.status["zero-copy"] = *zero_copy ? "true" : "false";
  return request;
}

}  // namespace headrace::port
