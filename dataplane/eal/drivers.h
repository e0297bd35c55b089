// SPDX-License-Identifier: Apache-2.0
// Loads DPDK's drivers as devices need them.
//
// DPDK of a distribution has a shared object for each driver, and rte_eal_init() loads all of them:
// Debian's 128 took 25 of the 68 ms in which headrace-vnf starts. By a profile most of it is the
// dynamic linker's, which compares names of libraries. A program whose devices are virtual needs
// two or three.
//
// So Eal::init() hides the folder from EAL (QuickStart) unless the PCI bus is wanted or arguments
// are given that may name devices, and loads the bus of virtual devices and the ring of mempools
// only. A driver is loaded before its first device is made: the one whose name the device's begins
// with (net_virtio for net_virtio_user0), or, if none is, all that there are. A driver adds itself
// to its bus when it is loaded, so later ones are as good as early ones.
//
// Thread safety: control thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headrace::eal {

/// The name of the driver among `names` ("net_virtio") with which a device's name begins, the
/// longest if several do; nothing if none does.
[[nodiscard]] std::optional<std::string> driver_of(std::string_view device,
                                                   const std::vector<std::string>& names);

/// The folder of this DPDK's drivers if they are shared objects that EAL would load; else nothing.
[[nodiscard]] std::optional<std::string> driver_folder();

/// Loads what each program needs from the folder; drivers are then loaded by load_driver_for().
/// Before rte_eal_init(), to which the folder is hidden.
Result<> load_basic_drivers(const std::string& folder);

/// Loads the driver of a device before it is made; nothing to do if EAL has loaded all.
Result<> load_driver_for(std::string_view device);

}  // namespace headrace::eal
