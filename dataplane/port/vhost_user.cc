// SPDX-License-Identifier: Apache-2.0
// Ports of types `dpdkvhostuser` and `dpdkvhostuserclient`: a VM's (or virtio-user's) virtio-net
// device, its rings in memory that the guest shares with us. As client we connect to a socket that
// the VM's side listens on, again and again until it is there: so we may be restarted under a VM
// that runs on. As server it is the VM that has to be restarted with us (OVS deprecates this).
#include "port/kinds.h"

namespace headrace::port {

namespace {

EthdevRequest request_for(const PortConfig& config, const std::string& path, bool client,
                          uint32_t queues) {
  EthdevRequest request;
  request.devargs = fmt::format("{},iface={},queues={},client={}",
                                vdev_name("net_vhost", config.name), path, queues, client ? 1 : 0);
  request.rx_queues = request.tx_queues = static_cast<uint16_t>(queues);
  // Only the queues that the guest enabled are served; queue 0 always is.
  request.tx_queue_per_worker = false;
  request.io_knows_link = true;
  request.status["socket"] = path;
  request.status["mode"] = client ? "client" : "server";
  return request;
}

}  // namespace

Result<EthdevRequest> vhost_user_request(const PortConfig& config, Options& options) {
  if (config.name.find('/') != std::string::npos || config.name.find(',') != std::string::npos) {
    return fail("{}: the port's name becomes a socket's: it must have no '/' and no ','",
                config.name);
  }
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 64);
  if (!queues) return tl::unexpected(queues.error());
  const std::string path = config.rundir + "/" + config.name;
  if (Result<> checked = check_socket_path(config.name, path); !checked) {
    return tl::unexpected(checked.error());
  }
  return request_for(config, path, false, *queues);
}

Result<EthdevRequest> vhost_user_client_request(const PortConfig& config, Options& options) {
  const Result<std::string> path = options.socket_path("vhost-server-path");
  if (!path) return tl::unexpected(path.error());
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 64);
  if (!queues) return tl::unexpected(queues.error());
  return request_for(config, *path, true, *queues);
}

}  // namespace headrace::port
