// Largest magnitude of stored keys or values: what scales of the whole layer are made of.
#pragma once

#include <cstddef>

#include "dumps/element_type.h"

namespace attest {

/// max |x| of `count` finite elements of `type`; 0 of none.
float max_magnitude(ElementType type, const std::byte* values, std::size_t count);

}  // namespace attest
