// SPDX-License-Identifier: Apache-2.0
#include "base/unix_listener.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace headrace {

using Stream = asio::local::stream_protocol;

Result<> listen_on(Stream::acceptor& acceptor, const std::string& path, std::string_view what) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail("{} '{}': a path must have 1 to {} characters", what, path,
                sizeof(sockaddr_un::sun_path) - 1);
  }
  const Stream::endpoint endpoint(path);
  asio::error_code error;
  Stream::socket probe(acceptor.get_executor());
  probe.connect(endpoint, error);
  if (!error) {
    return fail("{} {}: another process listens on it; stop it or choose another path", what, path);
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) {
      return fail("{} {}: a file that is no socket is in the way", what, path);
    }
    ::unlink(path.c_str());
  }
  acceptor.open(endpoint.protocol(), error);
  // Before bind: the socket's file is created with the mode that its descriptor has.
  if (!error && ::fchmod(acceptor.native_handle(), S_IRUSR | S_IWUSR) != 0) {
    error.assign(errno, asio::system_category());
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(Stream::acceptor::max_listen_connections, error);
  if (error) {
    asio::error_code ignored;
    acceptor.close(ignored);
    return fail("{} {}: {}", what, path, error.message());
  }
  return {};
}

}  // namespace headrace
