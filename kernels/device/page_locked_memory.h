// Page-locked memory for whole layers.
#pragma once

#include <memory_resource>

namespace attest {

/// Copies to and from the device run at full speed beside everything else. Lives as long as the program.
std::pmr::memory_resource* page_locked_memory(int device);

}  // namespace attest
