// Thread block clusters: blocks that run at the same time and read each other's shared memory. Compute capability 9.0
// or later.
#pragma once

#include <cstdint>

#include "kernels/device/bulk_copy.cuh"

namespace attest {

/// This block's place in its cluster.
__device__ inline int cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

/// A barrier of the cluster in two halves. What a thread wrote before it arrived, all see after they have waited.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// Where block `rank` of the cluster has what lies at `own` in this block's shared memory.
__device__ inline std::uint32_t peer_address(const void* own, int rank) {
  std::uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  return address;
}
__device__ inline int load_peer_int(std::uint32_t address) {
  int x;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
__device__ inline float2 load_peer_float2(std::uint32_t address) {
  float2 x;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address) : "memory");
  return x;
}
__device__ inline float4 load_peer_float4(std::uint32_t address) {
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

}  // namespace attest
