// JSON values as bytes, from one process to another: numbers stay exact, and texts may be any bytes.
#pragma once

#include <string>
#include <string_view>

#include "dumps/base/json.h"

namespace attest {

std::string packed(const Json& value);

/// What packed() was given. Throws JsonError if the bytes are not from packed(), or nest deeper than
/// JsonLimits::max_levels.
Json unpacked(std::string_view bytes);

}  // namespace attest
