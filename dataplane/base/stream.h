// SPDX-License-Identifier: Apache-2.0
// A connected stream socket, plain or under TLS: what protocols read from and write to.
//
// TLS here is as Open vSwitch does it: both ends show a certificate, and each holds the other's
// against its own CA certificate; names in certificates are not compared.
//
// Thread safety: none; the thread that runs the io_context.
#pragma once

#include <array>
#include <asio/any_io_executor.hpp>
#include <asio/buffer.hpp>
#include <asio/generic/stream_protocol.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "base/result.h"

namespace asio::ssl {
class context;
}

namespace headrace {

using StreamSocket = asio::generic::stream_protocol::socket;

/// Must outlive the operations under way on it.
class Stream {
 public:
  using Done = std::function<void(const std::error_code&, size_t)>;
  virtual ~Stream() = default;

  /// One read and one write may be under way at once.
  virtual void async_read_some(asio::mutable_buffer into, Done done) = 0;
  virtual void async_write_some(asio::const_buffer from, Done done) = 0;
  /// Ends operations under way with an error.
  virtual void close() = 0;
  virtual asio::any_io_executor get_executor() = 0;

 protected:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

std::unique_ptr<Stream> plain_stream(StreamSocket socket);

/// PEM files: OVSDB's SSL table, or --private-key, --certificate and --ca-cert.
struct TlsFiles {
  std::string private_key;
  std::string certificate;
  std::string ca_cert;
  /// While `ca_cert` is not there: the first peer's own root is trusted and stored there, and its
  /// connection closed, so that the next one is held against it (SSL:bootstrap_ca_cert).
  bool bootstrap_ca_cert{false};
  bool operator==(const TlsFiles&) const = default;
};

/// This program's private key and certificate, and the CA certificate that it trusts.
class TlsCredentials {
 public:
  using Context = std::shared_ptr<asio::ssl::context>;

  void set_files(TlsFiles files);
  /// What the files hold now: they are read again when one of them has changed. Fails, naming the
  /// file, if one cannot be used or none were given.
  Result<Context> context();

 private:
  using Times = std::array<std::filesystem::file_time_type, 3>;
  TlsFiles files_;
  Times read_at_{};
  Context context_;
};

enum class TlsRole { client, server };

/// Called once with a stream that is ready for use, or with why there is none.
using Secured = std::function<void(Result<std::unique_ptr<Stream>>)>;

/// Does TLS's handshake on a connected socket, within kTlsTime.
void secure(StreamSocket socket, TlsCredentials::Context context, TlsRole role, Secured secured);
inline constexpr std::chrono::seconds kTlsTime{10};

}  // namespace headrace
