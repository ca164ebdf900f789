// Asynchronous copies from device memory to shared memory (cp.async).
#pragma once

#include <cstdint>

namespace attest {

/// Copies `bytes` bytes and fills the rest of 16 bytes with zeros. Both addresses are aligned to 16 bytes.
__device__ inline void copy_async(void* shared, const void* from, int bytes) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// Makes the thread's copies since the last commit one group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most the last kGroups groups of this thread are in flight. To read the copies of other threads, use a
/// barrier afterwards.
template <int kGroups>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace attest
