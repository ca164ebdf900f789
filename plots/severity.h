// How much a finding matters.
#pragma once

#include <cstdint>

namespace attest {

enum class Severity : std::uint8_t { good, note, warning, serious };

}  // namespace attest
