// SPDX-License-Identifier: Apache-2.0
// base/wire.h under the names of this module.
#pragma once

#include "base/wire.h"

namespace headrace::openflow {

using wire::Bytes;
using wire::Reader;
using wire::Writer;

}  // namespace headrace::openflow
