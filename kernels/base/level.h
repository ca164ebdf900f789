// Entry level of a token: the first setting of a sweep that keeps it.
#pragma once

#include <cstdint>

namespace attest {

/// Index of the first setting of an ascending grid that keeps the token; the number of settings if none does.
using Level = std::uint16_t;

}  // namespace attest
