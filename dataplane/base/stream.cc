// SPDX-License-Identifier: Apache-2.0
#include "base/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <asio/ssl.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace headrace {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(StreamSocket socket) : socket_(std::move(socket)) {}
  void async_read_some(asio::mutable_buffer into, Done done) override {
    socket_.async_read_some(into, std::move(done));
  }
  void async_write_some(asio::const_buffer from, Done done) override {
    socket_.async_write_some(from, std::move(done));
  }
  void close() override {
    std::error_code ignored;
    socket_.close(ignored);
  }
  asio::any_io_executor get_executor() override { return socket_.get_executor(); }

 private:
  StreamSocket socket_;
};

class TlsStream final : public Stream {
 public:
  TlsStream(StreamSocket socket, TlsCredentials::Context context)
      : context_(std::move(context)), stream_(std::move(socket), *context_) {}
  template <typename Handler>
  void async_handshake(TlsRole role, Handler&& handler) {
    stream_.async_handshake(
        role == TlsRole::server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
        std::forward<Handler>(handler));
  }
  void async_read_some(asio::mutable_buffer into, Done done) override {
    stream_.async_read_some(into, std::move(done));
  }
  void async_write_some(asio::const_buffer from, Done done) override {
    stream_.async_write_some(from, std::move(done));
  }
  void close() override {
    std::error_code ignored;
    stream_.lowest_layer().close(ignored);
  }
  asio::any_io_executor get_executor() override { return stream_.get_executor(); }

 private:
  TlsCredentials::Context context_;  ///< outlives the stream
  asio::ssl::stream<StreamSocket> stream_;
};

/// A handshake under way.
struct Handshake {
  Handshake(StreamSocket socket, TlsCredentials::Context context, Secured then)
      : timer(socket.get_executor()),
        stream(std::make_unique<TlsStream>(std::move(socket), std::move(context))),
        secured(std::move(then)) {}
  asio::steady_timer timer;
  std::unique_ptr<TlsStream> stream;
  Secured secured;
  bool late{false};
};

/// Writes the self-signed root of the chain that a peer shows to `file`, which must not exist.
Result<> keep_root(X509_STORE_CTX* chain, const std::string& file) {
  STACK_OF(X509)* shown = X509_STORE_CTX_get0_untrusted(chain);
  X509* root = shown == nullptr || sk_X509_num(shown) == 0
                   ? nullptr
                   : sk_X509_value(shown, sk_X509_num(shown) - 1);
  if (root == nullptr || X509_check_issued(root, root) != X509_V_OK) {
    return fail("the peer shows no self-signed CA certificate to begin with");
  }
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  FILE* out = fd < 0 ? nullptr : ::fdopen(fd, "w");
  if (out == nullptr) return fail("{}: {}", file, std::strerror(errno));
  const bool written = PEM_write_X509(out, root) == 1;
  if (::fclose(out) != 0 || !written) {
    ::unlink(file.c_str());
    return fail("{}: cannot be written", file);
  }
  return {};
}

/// Refuses every peer, once the root of its chain is kept.
void bootstrap(asio::ssl::context& context, const std::string& file, std::error_code& code) {
  const auto verify = [file](bool, asio::ssl::verify_context& peer) {
    const Result<> kept = keep_root(peer.native_handle(), file);
    if (kept) {
      log::warn("TLS: {}: the first peer's CA certificate is kept there and trusted from now on",
                file);
    } else {
      log::warn("TLS: bootstrap_ca_cert: {}", kept.error().message);
    }
    return false;
  };
  context.set_verify_callback(verify, code);
}

Result<TlsCredentials::Context> load(const TlsFiles& files, bool is_bootstrap) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls);
  std::error_code code;
  context->set_options(asio::ssl::context::no_sslv2 | asio::ssl::context::no_sslv3 |
                           asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1,
                       code);
  const auto done = [&code](const char* what, const std::string& file) -> Result<> {
    if (code) return fail("TLS: {} {}: {}", what, file, code.message());
    return {};
  };
  context->use_certificate_chain_file(files.certificate, code);
  if (Result<> used = done("certificate", files.certificate); !used) {
    return tl::unexpected(used.error());
  }
  context->use_private_key_file(files.private_key, asio::ssl::context::pem, code);
  if (Result<> used = done("private key", files.private_key); !used) {
    return tl::unexpected(used.error());
  }
  if (is_bootstrap) {
    bootstrap(*context, files.ca_cert, code);
  } else {
    context->load_verify_file(files.ca_cert, code);
  }
  if (Result<> used = done("CA certificate", files.ca_cert); !used) {
    return tl::unexpected(used.error());
  }
  context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, code);
  return context;
}

}  // namespace

std::unique_ptr<Stream> plain_stream(StreamSocket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

void TlsCredentials::set_files(TlsFiles files) {
  if (files == files_) return;
  files_ = std::move(files);
  context_.reset();
}

Result<TlsCredentials::Context> TlsCredentials::context() {
  const std::array<const std::string*, 3> names{&files_.private_key, &files_.certificate,
                                                &files_.ca_cert};
  Times times{};
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i]->empty()) {
      return fail("TLS needs a private key, a certificate and a CA certificate: ovs-vsctl set-ssl");
    }
    std::error_code code;
    times[i] = std::filesystem::last_write_time(*names[i], code);
    if (code && names[i] == &files_.ca_cert && files_.bootstrap_ca_cert &&
        code == std::errc::no_such_file_or_directory) {
      return load(files_, true);
    }
    if (code) return fail("TLS: {}: {}", *names[i], code.message());
  }
  if (context_ != nullptr && times == read_at_) return context_;
  Result<Context> loaded = load(files_, false);
  if (!loaded) return loaded;
  read_at_ = times;
  context_ = *loaded;
  return context_;
}

void secure(StreamSocket socket, TlsCredentials::Context context, TlsRole role, Secured secured) {
  auto handshake =
      std::make_shared<Handshake>(std::move(socket), std::move(context), std::move(secured));
  handshake->timer.expires_after(kTlsTime);
  handshake->timer.async_wait([handshake](const std::error_code& cancelled) {
    if (cancelled || handshake->stream == nullptr) return;
    handshake->late = true;
    handshake->stream->close();
  });
  handshake->stream->async_handshake(role, [handshake](const std::error_code& code) {
    handshake->timer.cancel();
    const Secured then = std::move(handshake->secured);
    if (code) {
      then(fail("TLS: {}", handshake->late ? "no handshake in time" : code.message()));
      return;
    }
    then(std::unique_ptr<Stream>(std::move(handshake->stream)));
  });
}

}  // namespace headrace
