// The fast question before a study: is there any NaN or infinity? Where it is, value_check.h tells.
#pragma once

#include <cstddef>
#include <span>

#include "dumps/element_type.h"

namespace attest {

/// Of whole elements.
bool all_finite(ElementType type, std::span<const std::byte> values);

}  // namespace attest
