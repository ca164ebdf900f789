// Entry levels: how a sweep over settings is held.
#pragma once

#include <cstdint>

namespace attest {

/// First index of an ascending settings grid that keeps a token; the number of settings where none does.
using Level = std::uint16_t;

}  // namespace attest
