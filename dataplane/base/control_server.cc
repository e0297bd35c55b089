// SPDX-License-Identifier: Apache-2.0
#include "base/control_server.h"

#include <unistd.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>
#include <utility>

#include "base/log.h"
#include "base/unix_listener.h"
#include "base/version.h"

namespace headrace {

using nlohmann::json;
using Stream = asio::local::stream_protocol;

namespace {

json error_body(std::string_view code, std::string_view message) {
  return {{"code", code}, {"message", message}};
}

/// The reply as a line. Bytes that are no UTF-8 (a device's name, say) must not throw here.
std::string reply_line(const json& id, const Result<json>& result) {
  json reply{{"id", id}};
  if (result) {
    reply["result"] = *result;
  } else {
    reply["error"] = error_body(result.error().code, result.error().message);
  }
  return reply.dump(-1, ' ', false, json::error_handler_t::replace) + '\n';
}

/// True for a whole request of Open vSwitch's unixctl protocol, which has no newline at its end, so
/// that a reader of lines would wait for ever. What makes it one is an array of parameters, which
/// no request of ours has.
bool is_unixctl(std::string_view unfinished) {
  constexpr size_t kLongest = 64 << 10;
  if (unfinished.empty() || unfinished.back() != '}' || unfinished.size() > kLongest) return false;
  const json request = json::parse(unfinished, nullptr, /*allow_exceptions=*/false);
  return request.is_object() && request.contains("id") && request.contains("method") &&
         request.contains("params") && request["params"].is_array();
}

}  // namespace

/// One connection. Lives as long as the server holds it; pending operations and replies hold weak
/// references.
class ControlServer::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(ControlServer& server, Stream::socket socket)
      : server_(server), socket_(std::move(socket)) {}

  void start() { read(); }

  void close() {
    asio::error_code ignored;
    socket_.close(ignored);
    server_.sessions_.erase(shared_from_this());
  }

  void send(std::string line) {
    unsent_bytes_ += line.size();
    if (unsent_bytes_ > kMaxUnsent) {
      log::warn("control: a client does not read its replies; closing it");
      close();
      return;
    }
    waiting_ += line;
    if (sending_.empty()) write();
  }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(chunk_),
                            [weak = weak_from_this()](const asio::error_code& error, size_t size) {
                              const std::shared_ptr<Session> self = weak.lock();
                              if (!self || error == asio::error::operation_aborted) return;
                              if (error) {
                                self->close();
                                return;
                              }
                              self->received_.append(self->chunk_.data(), size);
                              if (self->serve_lines()) self->read();
                            });
  }

  /// Serves every whole line received; false if the session is closed or closing.
  bool serve_lines() {
    size_t begin = 0;
    for (size_t end; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line = std::string_view(received_).substr(begin, end - begin);
      if (line.size() > kMaxLine) return refuse_long_line();
      if (!line.empty()) serve(line);
      if (!socket_.is_open()) return false;
    }
    received_.erase(0, begin);
    if (is_unixctl(received_)) return refuse_unixctl();
    return received_.size() <= kMaxLine || refuse_long_line();
  }

  /// Answers in the form of JSON-RPC 1.0: ovs-appctl prints the text and leaves.
  bool refuse_unixctl() {
    const json id = json::parse(received_)["id"];
    received_.clear();
    closing_ = true;
    const json reply{
        {"id", id},
        {"result", nullptr},
        {"error", fmt::format("this is the control socket of {}, which takes one JSON object per "
                              "line and is not for ovs-appctl; {}",
                              server_.program_.name,
                              server_.program_.unixctl.empty() ? "the program has no unixctl socket"
                                                               : server_.program_.unixctl)}};
    send(reply.dump() + '\n');
    return false;
  }

  bool refuse_long_line() {
    closing_ = true;
    send(reply_line(nullptr, fail_as("line_too_long", "a request may have {} bytes", kMaxLine)));
    return false;
  }

  void serve(std::string_view line) {
    json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (request.is_discarded()) {
      send(
          reply_line(nullptr, fail_as("bad_json", "the line is not JSON; send one object a line")));
      return;
    }
    const json id = request.is_object() && request.contains("id") ? request["id"] : json();
    if (!request.is_object() || !request.contains("method") || !request["method"].is_string()) {
      send(reply_line(id, fail_as("bad_request", "send {{\"id\", \"method\", \"params\"}}")));
      return;
    }
    json params = request.contains("params") ? std::move(request["params"]) : json::object();
    if (params.is_null()) params = json::object();
    if (!params.is_object()) {
      send(reply_line(id, fail_as("bad_params", "params must be an object")));
      return;
    }
    asio::io_context& io = server_.io_;
    server_.dispatch(request["method"].get<std::string>(), params,
                     [&io, id, weak = weak_from_this()](Result<json> result) {
                       // Not in place: the caller may be another thread, or a handler that is
                       // still using the server.
                       asio::post(io, [id, weak, result = std::move(result)] {
                         if (const auto self = weak.lock()) self->send(reply_line(id, result));
                       });
                     });
  }

  void write() {
    std::swap(sending_, waiting_);
    asio::async_write(socket_, asio::buffer(sending_),
                      [weak = weak_from_this()](const asio::error_code& error, size_t) {
                        const std::shared_ptr<Session> self = weak.lock();
                        if (!self || error == asio::error::operation_aborted) return;
                        self->unsent_bytes_ -= self->sending_.size();
                        self->sending_.clear();
                        if (error || (self->closing_ && self->waiting_.empty())) {
                          self->close();
                        } else if (!self->waiting_.empty()) {
                          self->write();
                        }
                      });
  }

  ControlServer& server_;
  Stream::socket socket_;
  std::array<char, 16384> chunk_;
  std::string received_;  ///< without the lines already served
  std::string sending_;   ///< owned by the write in flight; empty: none in flight
  std::string waiting_;   ///< to be sent after that
  size_t unsent_bytes_{0};
  bool closing_{false};  ///< close once all is sent
};

Result<std::unique_ptr<ControlServer>> ControlServer::open(asio::io_context& io,
                                                           const std::string& path,
                                                           Program program) {
  std::unique_ptr<ControlServer> server(new ControlServer(io, path, std::move(program)));
  if (Result<> listening = listen_on(server->acceptor_, path, "control socket"); !listening) {
    return tl::unexpected(listening.error());
  }
  server->accept();
  return server;
}

ControlServer::ControlServer(asio::io_context& io, std::string path, Program program)
    : io_(io), path_(std::move(path)), program_(std::move(program)), acceptor_(io) {
  on("ping", [this](const json&) -> Result<json> {
    return json{{"program", program_.name},
                {"version", kVersion},
                {"pid", ::getpid()},
                {"eal", program_.eal ? program_.eal() : json()}};
  });
  on_async("shutdown", [this](const json&, const Reply& reply) {
    reply(json::object());
    // Behind the reply, which is posted too; its write is then already started.
    asio::post(io_, [stop = program_.shutdown] { stop(); });
  });
}

ControlServer::~ControlServer() {
  const auto sessions = std::exchange(sessions_, {});
  for (const auto& session : sessions) session->close();
  if (acceptor_.is_open()) {
    asio::error_code ignored;
    acceptor_.close(ignored);
    ::unlink(path_.c_str());
  }
}

void ControlServer::accept() {
  acceptor_.async_accept(
      [this, alive = std::weak_ptr(alive_)](const asio::error_code& error, Stream::socket socket) {
        // A connection accepted just before the server's end may arrive here after it.
        if (alive.expired()) return;
        if (error) {
          log::warn("control: accept: {}", error.message());
        } else {
          auto session = std::make_shared<Session>(*this, std::move(socket));
          sessions_.insert(session);
          session->start();
        }
        accept();
      });
}

void ControlServer::on(const std::string& method, Handler handler) {
  on_async(method, [handler = std::move(handler)](const json& params, const Reply& reply) {
    reply(handler(params));
  });
}

void ControlServer::on_async(const std::string& method, AsyncHandler handler) {
  methods_[method] = std::move(handler);
}

void ControlServer::dispatch(const std::string& method, const json& params, Reply reply) {
  const auto found = methods_.find(method);
  if (found == methods_.end()) {
    reply(fail_as("unknown_method", "{} has no method '{}'", program_.name, method));
    return;
  }
  try {
    found->second(params, reply);
  } catch (const json::exception& e) {
    reply(fail_as("bad_params", "{}: {}", method, e.what()));
  }
}

}  // namespace headrace
