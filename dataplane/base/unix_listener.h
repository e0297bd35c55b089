// SPDX-License-Identifier: Apache-2.0
// Listening on a Unix stream socket whose path an earlier run may have left behind.
#pragma once

#include <asio/local/stream_protocol.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace headrace {

/// Makes `acceptor` listen on `path`, mode 0600. A dead socket there is replaced; a file that is no
/// socket, or a socket that has a listener, is an error. `what` names the socket in errors. The
/// acceptor is closed if it fails.
Result<> listen_on(asio::local::stream_protocol::acceptor& acceptor, const std::string& path,
                   std::string_view what);

}  // namespace headrace
