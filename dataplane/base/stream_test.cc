// SPDX-License-Identifier: Apache-2.0
// TLS between two ends of a socket pair.
#include "base/stream.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <fstream>
#include <optional>

#include "base/test_certificates.h"

namespace headrace {
namespace {

using namespace std::chrono_literals;
using Ready = std::optional<Result<std::unique_ptr<Stream>>>;

class StreamTest : public testing::Test {
 protected:
  /// Both ends' handshakes.
  std::pair<Ready, Ready> shake_hands(TlsFiles server_files, TlsFiles client_files) {
    asio::local::stream_protocol::socket one(io_), two(io_);
    asio::local::connect_pair(one, two);
    TlsCredentials server, client;
    server.set_files(std::move(server_files));
    client.set_files(std::move(client_files));
    Ready a, b;
    secure(std::move(one), *server.context(), TlsRole::server, [&](auto r) { a = std::move(r); });
    secure(std::move(two), *client.context(), TlsRole::client, [&](auto r) { b = std::move(r); });
    run_until([&] { return a && b; });
    return {std::move(a), std::move(b)};
  }
  template <typename Condition>
  void run_until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + 5s;
    while (!condition() && std::chrono::steady_clock::now() < end) {
      io_.restart();
      io_.run_for(2ms);
    }
  }

  asio::io_context io_;
};

TEST_F(StreamTest, CarriesOctetsBothWays) {
  test::Certificates authority;
  auto [server, client] = shake_hands(authority.make("server"), authority.make("client"));
  ASSERT_TRUE(server && *server) << (*server).error().message;
  ASSERT_TRUE(client && *client) << (*client).error().message;
  const std::string said = "hello";
  std::array<char, 16> heard{};
  size_t length = 0;
  (**client)->async_write_some(asio::buffer(said), [](const std::error_code&, size_t) {});
  (**server)->async_read_some(asio::buffer(heard),
                              [&](const std::error_code&, size_t got) { length = got; });
  run_until([&] { return length > 0; });
  EXPECT_EQ(std::string(heard.data(), length), said);
}

TEST_F(StreamTest, RefusesACertificateOfAnotherAuthority) {
  test::Certificates authority, another;
  const TlsFiles untrusted = another.make("client");
  // The client trusts the server's authority, but not the other way round.
  TlsFiles client_files = untrusted;
  client_files.ca_cert = authority.directory() + "/ca.pem";
  const auto [server, client] = shake_hands(authority.make("server"), client_files);
  ASSERT_TRUE(server);
  ASSERT_FALSE(*server);
  EXPECT_NE(server->error().message.find("certificate"), std::string::npos)
      << server->error().message;
}

TEST_F(StreamTest, NamesTheFileThatCannotBeUsed) {
  test::Certificates authority;
  TlsCredentials credentials;
  EXPECT_FALSE(credentials.context());
  TlsFiles files = authority.make("one");
  files.private_key = authority.directory() + "/missing";
  credentials.set_files(files);
  const auto missing = credentials.context();
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/missing"), std::string::npos);
  std::ofstream(files.private_key) << "no key\n";
  EXPECT_FALSE(credentials.context());
}

TEST_F(StreamTest, ReadsFilesAgainWhenTheyChange) {
  test::Certificates authority;
  TlsCredentials credentials;
  const TlsFiles files = authority.make("one");
  credentials.set_files(files);
  const auto first = credentials.context();
  ASSERT_TRUE(first);
  EXPECT_EQ(*credentials.context(), *first);
  authority.make("one");
  std::filesystem::last_write_time(files.certificate,
                                   std::filesystem::last_write_time(files.certificate) + 1s);
  const auto second = credentials.context();
  ASSERT_TRUE(second);
  EXPECT_NE(*second, *first);
}

TEST_F(StreamTest, GarbageIsNoHandshake) {
  test::Certificates authority;
  asio::local::stream_protocol::socket one(io_), two(io_);
  asio::local::connect_pair(one, two);
  TlsCredentials credentials;
  credentials.set_files(authority.make("server"));
  Ready ready;
  secure(std::move(one), *credentials.context(), TlsRole::server,
         [&](auto r) { ready = std::move(r); });
  two.write_some(asio::buffer(std::string(4096, 'x')));
  run_until([&] { return ready.has_value(); });
  ASSERT_TRUE(ready);
  EXPECT_FALSE(*ready);
}

}  // namespace
}  // namespace headrace
