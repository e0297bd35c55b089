// SPDX-License-Identifier: Apache-2.0
#include "eal/drivers.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "eal/eal.h"
#include "eal/ethdev.h"

namespace headrace::eal {
namespace {

TEST(Drivers, IsTheLongestNameThatTheDeviceBeginsWith) {
  const std::vector<std::string> names = {"bus_vdev", "net_af_packet", "net_ring", "net_virtio"};
  EXPECT_EQ(driver_of("net_virtio_user0", names), "net_virtio");
  EXPECT_EQ(driver_of("net_af_packet_vnf3,iface=a", names), "net_af_packet");
  EXPECT_EQ(driver_of("net_ring", {"net", "net_ring", "net_r"}), "net_ring");
  EXPECT_FALSE(driver_of("0000:00:04.0", names));
  EXPECT_FALSE(driver_of("net_rin", names));
}

bool is_loaded(const std::string& folder, const std::string& driver) {
  const std::string file = folder + "/librte_" + driver + ".so";
  return ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

TEST(Drivers, AreLoadedByTheFirstDeviceThatNeedsThem) {
  const auto folder = driver_folder();
  if (!folder) GTEST_SKIP() << "the drivers of this DPDK are no shared objects";
  auto eal = Eal::init({.file_prefix = "headrace-drivers-test-" + std::to_string(::getpid()),
                        .memory_mb = 64,
                        .allow_hugepages = false});
  ASSERT_TRUE(eal) << eal.error().message;
  EXPECT_FALSE(is_loaded(*folder, "net_null"));
  EXPECT_FALSE(is_loaded(*folder, "net_i40e"));
  const auto device = Ethdev::probe("net_null0");
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_TRUE(is_loaded(*folder, "net_null"));
  EXPECT_FALSE(is_loaded(*folder, "net_i40e"));
  // No driver has such a name: all are loaded before it is refused.
  EXPECT_FALSE(Ethdev::probe("no_such_device"));
  EXPECT_TRUE(is_loaded(*folder, "net_ring"));
}

}  // namespace
}  // namespace headrace::eal
