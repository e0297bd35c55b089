// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary data from the server. The input is received in two parts, split at
// the offset given by its first byte; updates in it are passed as rows to the reconciler.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ovsdb/database.h"
#include "ovsdb/fake_switch.h"
#include "ovsdb/reconciler.h"
#include "ovsdb/rpc.h"
#include "ovsdb/status_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::ovsdb;
  if (size == 0) {
    return 0;
  }
  asio::io_context context;
  FakeSwitch fake;
  Reconciler reconciler(fake);
  StatusWriter writer;
  Database database;
  DesiredReader reader;
  const auto take_rows = [&](const Json& updates) {
    if (!database.apply(updates)) {
      return;
    }
    if (const auto desired = reader.read(database)) {
      fake.calls.clear();
      reconciler.apply(*desired);
      writer.drop(reconciler.take_gone());
      writer.operations(reconciler.changed_status());
      writer.operations(reconciler.changed_statistics());
    }
  };
  auto rpc = std::make_shared<Rpc>(context);
  rpc->on_notify = [&](const std::string& method, const Json& params) {
    if (method == "update" && params.size() == 2) {
      take_rows(params[1]);
    }
  };
  rpc->request("monitor", Json::array(), [&](const headrace::Result<Json>& reply) {
    if (reply) {
      take_rows(*reply);
    }
  });
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = std::min<size_t>(data[0], bytes.size());
  if (rpc->receive(bytes.substr(0, cut))) {
    std::ignore = rpc->receive(bytes.substr(cut));
  }
  rpc->close();
  context.run();
  return 0;
}
