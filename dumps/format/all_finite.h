// Fast check before a study: are all values finite? value_check.h reports where a bad value is.
#pragma once

#include <cstddef>
#include <span>

#include "dumps/element_type.h"

namespace attest {

/// `values` holds whole elements of `type`.
bool all_finite(ElementType type, std::span<const std::byte> values);

}  // namespace attest
