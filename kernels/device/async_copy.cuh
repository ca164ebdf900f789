// Copies from device memory to shared memory that go on while the thread does other things.
#pragma once

#include <cstdint>

namespace attest {

/// 16 bytes, of which the last 16 - bytes are zero. Both sides are aligned to 16 bytes.
__device__ inline void copy_async(void* shared, const void* from, int bytes) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/// The thread's copies since the last commit are one group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Until all but the last kGroups groups have arrived, for this thread; other threads' need a barrier.
template <int kGroups>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace attest
