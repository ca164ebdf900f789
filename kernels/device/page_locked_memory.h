// Page-locked host memory: copies between it and the device run asynchronously at full bus speed.
#pragma once

#include <cstddef>
#include <memory_resource>

namespace attest {

/// For the current device, visible to all. Throws DeviceError, or std::bad_alloc where the system has no memory to map.
void* allocate_page_locked(std::size_t bytes);
/// Has another thread provide the pages of the next allocation of so many bytes, which needs no device: that allocation
/// only locks them. No effect while such pages wait.
void prepare_page_locked(std::size_t bytes);
/// On any device; null is ignored.
void free_page_locked(void* p) noexcept;

/// The same as a resource that lives as long as the program. allocate() makes `device` the current one of its thread.
std::pmr::memory_resource* page_locked_memory(int device);

}  // namespace attest
