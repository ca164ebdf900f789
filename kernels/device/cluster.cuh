// Thread block clusters: blocks that run at the same time and write into each other's shared memory. Compute
// capability 9.0 or later.
#pragma once

#include <cstdint>

#include "kernels/device/bulk_copy.cuh"

namespace attest {

/// A barrier of the cluster in two halves: after it all blocks run, and barriers that they have published are seen.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

/// Where block `rank` of the cluster has what lies at `own` in this block's shared memory.
__device__ inline std::uint32_t peer_address(const void* own, int rank) {
  std::uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  return address;
}

/// Stores into another block's shared memory, which complete on a barrier there: peer_address() of both. What arrives
/// is seen by those that wait for the barrier; nothing else need be ordered.
__device__ inline void store_to_peer(std::uint32_t address, std::uint32_t barrier, int x) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(address), "r"(x),
               "r"(barrier)
               : "memory");
}
__device__ inline void store_to_peer(std::uint32_t address, std::uint32_t barrier, float2 x) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
               "f"(x.x), "f"(x.y), "r"(barrier)
               : "memory");
}
__device__ inline void store_to_peer(std::uint32_t address, std::uint32_t barrier, float4 x) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
      : "memory");
}

}  // namespace attest
