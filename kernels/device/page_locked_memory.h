// Page-locked host memory for whole layers.
#pragma once

#include <memory_resource>

namespace attest {

/// Copies between this memory and the device run asynchronously at full bus speed. The resource lives as long as the
/// program.
std::pmr::memory_resource* page_locked_memory(int device);

}  // namespace attest
