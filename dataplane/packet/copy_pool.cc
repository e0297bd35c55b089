// SPDX-License-Identifier: Apache-2.0
#include "packet/copy_pool.h"

namespace headrace::packet {
namespace {

rte_mempool* g_own = nullptr;

}  // namespace

void set_pool_of_copies(rte_mempool* own) noexcept {
  g_own = own;
}

rte_mempool* pool_of_copies() noexcept {
  return g_own;
}

}  // namespace headrace::packet
