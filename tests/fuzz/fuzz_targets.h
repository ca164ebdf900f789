// All readers.
#pragma once

#include <span>

#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

std::span<const TargetInfo* const> all_targets();

}  // namespace attest::fuzz
