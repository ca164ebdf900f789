// The fused decode of short sequences. The CTAs of a pair are a cluster: they put their results together through their
// shared memory, without counters and partial results in device memory. The steps are those of ffd_fused.cuh.
#pragma once

#include "kernels/decode/fused/ffd_one_segment.cuh"
#include "kernels/device/cluster.cuh"

namespace attest {

template <class T, int D, int kGroups, int kBits>
struct FfdClustered : FfdOneSegment<T, D, kGroups, kBits> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Shared = typename Step::Shared;
  using Step::copy_query, Step::init_barriers;
  using Step::kHalves, Step::p, Step::sh, Step::warp, Step::lane;

  __device__ int ctas() const { return 1 << p.cluster_shift; }
  __device__ int rank() const { return static_cast<int>(blockIdx.x) & (ctas() - 1); }

  /// This CTA's share of its pair's items: every ctas()-th.
  __device__ FfdSegment own_segment(int pair, int sequence, int length) const {
    FfdSegment s;
    s.pair = pair, s.sequence = sequence, s.kv_head = pair - sequence * p.num_kv_heads;
    s.length = length, s.full = length / kFfdBlock;
    s.first = rank(), s.step = ctas();
    s.blocks = max(0, (s.full - s.first + s.step - 1) >> p.cluster_shift);
    s.tail = (s.full & (s.step - 1)) == s.first;
    return s;
  }

  __device__ void run() {
    init_barriers();
    if (warp == 0 && elect_one()) {
      init_barrier(&sh.inbox_full, 1);
      publish_barriers();
      expect_bytes(&sh.inbox_full, inbox_bytes());
      sh.kept = 0;
    }
    cluster_arrive();
    const int pair = static_cast<int>(blockIdx.x) >> p.cluster_shift;
    const int sequence = p.batch == 1 ? 0 : pair / p.num_kv_heads;
    wait_for_launch_before();
    // Clusters that begin in the other half of the GPU are not spread over it, and read more slowly where much is kept.
    if (p.fills_device) let_next_launch_begin();
    copy_query(pair);  // beside the length
    const FfdSegment s = own_segment(pair, sequence, p.cache.lengths[sequence]);
    FfdAttention<T, D, kHalves> state;
    const unsigned tiles = this->template run_segment<false>(state, s, &sh.kept);
    share_warp_states<T, D, kHalves>(p, sh.merge, state, sh.area[0], Shared::kArea);
    cluster_wait();  // the peers' barriers are there
    if (ctas() > 1) {
      send();
      wait_barrier(&sh.inbox_full, 0);  // by all: the others must not end before what is sent to them has arrived
    }
    merge(pair);
    this->discard_if_many(s, tiles);
  }

  /// Four channels each: of the pair's outputs, and of those that a CTA writes.
  __device__ int quads() const { return p.group * (D / 4); }
  __device__ int own_quads() const { return quads() >> p.cluster_shift; }
  __device__ std::uint32_t inbox_bytes() const {
    const int counts = p.call.kept && rank() == 0 ? ctas() * static_cast<int>(sizeof(int)) : 0;
    const int states = p.group * ctas() * static_cast<int>(sizeof(float2));
    return static_cast<std::uint32_t>(quads() * static_cast<int>(sizeof(float4)) + states + counts);
  }

  /// Sends each CTA of the cluster what it needs to write its share of the outputs. All threads.
  __device__ void send() const {
    static_assert(kFfdMaxGroup / 2 * (D / 4) <= kFfdThreads / 2);
    const int i = static_cast<int>(threadIdx.x), other = i - kFfdThreads / 2;
    const auto barrier_of = [&](int peer) { return peer_address(&sh.inbox_full, peer); };
    if (i < quads()) {
      const int peer = i / own_quads();
      store_to_peer(peer_address(&sh.inbox.sums[rank() * own_quads() + i - peer * own_quads()], peer), barrier_of(peer),
                    sum_over_warps<D>(sh.merge, sh.area[0], Shared::kArea, i));
    }
    if (other >= 0 && other < p.group * ctas()) {
      const int peer = other & (ctas() - 1), head = other >> p.cluster_shift;
      store_to_peer(peer_address(&sh.inbox.state[rank()][head], peer), barrier_of(peer), sh.merge.state[head]);
    }
    if (i == kFfdThreads - 1 && p.call.kept)
      store_to_peer(peer_address(&sh.inbox.kept[rank()], 0), barrier_of(0), sh.kept);
  }

  /// Writes the CTA's share of the pair's outputs, from the sums of all. Whole warps: ctas() lanes share a quad, and
  /// those behind the last quad repeat it. A CTA alone has no inbox: stores to peers need a cluster of two.
  __device__ void merge(int pair) const {
    const int i = static_cast<int>(threadIdx.x), own = i >> p.cluster_shift, peer = i & (ctas() - 1);
    const bool alone = ctas() == 1, merges = warp * 32 < quads();
    if (merges) {
      const int at = min(own, own_quads() - 1), quad = rank() * own_quads() + at, head = quad / (D / 4);
      float2 state = alone ? sh.merge.state[head] : sh.inbox.state[peer][head];
      float4 y =
          alone ? sum_over_warps<D>(sh.merge, sh.area[0], Shared::kArea, quad) : sh.inbox.sums[peer * own_quads() + at];
      merge_lanes(state, y);
      if (peer == 0 && own < own_quads()) write_output<T, D>(p, pair, quad, state.x, state.y, y);
    }
    if (rank() == 0 && warp == kFfdWarps - 1 && p.call.kept) {
      const int kept = alone ? sh.kept : __reduce_add_sync(~0u, lane < ctas() ? sh.inbox.kept[lane] : 0);
      if (lane == 0) p.call.kept[pair] = kept;
    }
  }

  /// Largest score and sums over the ctas() lanes that share a quad. A whole warp.
  __device__ void merge_lanes(float2& state, float4& y) const {
    const float before = state.x;
#pragma unroll 1
    for (int o = 1; o < ctas(); o *= 2) state.x = fmaxf(state.x, __shfl_xor_sync(~0u, state.x, o));
    const float weight = exp_of_difference(before, state.x);
    state.y *= weight, y.x *= weight, y.y *= weight, y.z *= weight, y.w *= weight;
#pragma unroll 1
    for (int o = 1; o < ctas(); o *= 2) {
      state.y += __shfl_xor_sync(~0u, state.y, o);
      y.x += __shfl_xor_sync(~0u, y.x, o), y.y += __shfl_xor_sync(~0u, y.y, o);
      y.z += __shfl_xor_sync(~0u, y.z, o), y.w += __shfl_xor_sync(~0u, y.w, o);
    }
  }
};

template <class T, int D, int kGroups, int kBits>
__global__ void __launch_bounds__(kFfdThreads, 1) ffd_clustered_kernel(const __grid_constant__ FfdFusedParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) std::uint8_t memory[];
  FfdClustered<T, D, kGroups, kBits>{{{{{{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}}}}}}.run();
#endif
}

}  // namespace attest
