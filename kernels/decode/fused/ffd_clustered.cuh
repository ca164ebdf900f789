// The fused decode of short sequences. The CTAs of a pair are a cluster: they put their results together through their
// shared memory, without counters and partial results in device memory. Each has one segment, so that the division of
// work is a few shifts. The steps are those of ffd_fused.cuh.
#pragma once

#include "kernels/decode/fused/ffd_attend_step.cuh"
#include "kernels/device/cluster.cuh"

namespace attest {

template <class T, int D, int kGroups, int kBits>
struct FfdClustered : FfdAttendStep<T, D, kGroups, kBits, false> {
  using Step = FfdStep<T, D, kGroups, kBits>;
  using Shared = typename Step::Shared;
  using Scan = FfdScanStep<T, D, kGroups, kBits, false>;
  using Attend = FfdAttendStep<T, D, kGroups, kBits, false>;
  using Attend::attend;
  using Scan::issue, Scan::prefetch_boundary, Scan::scan_segment;
  using Step::kHalves, Step::p, Step::sh, Step::warp, Step::lane;
  using Step::query_of, Step::use_query, Step::init_barriers;
  using typename Scan::Ring;
  using QueryTask = typename Step::QueryTask;

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
    const int pair = static_cast<int>(blockIdx.x) >> p.cluster_shift;
    const int sequence = p.batch == 1 ? 0 : pair / p.num_kv_heads;
    const int length = p.cache.lengths[sequence];
    QueryTask task{};
    if (warp < QueryTask::kTasks) task.load(query_of(pair), p.group, warp, lane);  // beside the length
    init_barriers();
    if (threadIdx.x == 0) sh.kept = 0;
    const FfdSegment s = own_segment(pair, sequence, length);
    Ring ring{s, warp};
    issue(ring);
    prefetch_boundary(s);
    task.find_most();
    use_query(pair, task);
    scan_segment(s, ring, sh.masks, &sh.kept);
    __syncthreads();
    FfdAttention<T, D, kHalves> state;
    unsigned copies = 0;
    attend(state, {.segment = s, .masks = sh.masks}, copies);
    share_warp_states<T, D, kHalves>(p, sh.merge, state, sh.area[0], Shared::kArea);
    merge_cluster(pair);
  }

  /// The CTA's sums of values, [group, D / 4], behind what share_warp_states() uses of the first warp's memory.
  __device__ float4* own_sums() const {
    static_assert(Shared::kArea >= 2 * Shared::kStateBytes);
    return reinterpret_cast<float4*>(sh.area[0] + Shared::kStateBytes);
  }

  /// Each CTA writes an equal share of the pair's outputs, from the sums of all. All threads.
  __device__ void merge_cluster(int pair) const {
    const int quads = p.group * (D / 4), i = static_cast<int>(threadIdx.x);
    static_assert(kFfdMaxGroup * (D / 4) <= kFfdThreads);
    if (i < quads) own_sums()[i] = sum_over_warps<D>(sh.merge, sh.area[0], Shared::kArea, i);
    cluster_arrive();
    cluster_wait();
    // ctas() lanes share a quad. Whole warps, of which the lanes behind the last quad repeat it.
    const int share = quads >> p.cluster_shift, own = i >> p.cluster_shift, peer = i & (ctas() - 1);
    const int quad = rank() * share + min(own, share - 1);
    const bool merges = warp * 32 < quads, counts = rank() == 0 && warp == kFfdWarps - 1 && p.call.kept;
    float2 state{-INFINITY, 0};
    float4 y{};
    int kept = 0;
    if (merges) {
      state = load_peer_float2(peer_address(&sh.merge.state[quad / (D / 4)], peer));
      y = load_peer_float4(peer_address(own_sums() + quad, peer));
    }
    if (counts && lane < ctas()) kept = load_peer_int(peer_address(&sh.kept, lane));
    cluster_arrive();  // nobody ends while others read its memory
    if (merges) merge_lanes(state, y);
    if (merges && peer == 0 && own < share) write_output<T, D>(p, pair, quad, state.x, state.y, y);
    if (counts) {
      kept = __reduce_add_sync(~0u, kept);
      if (lane == 0) p.call.kept[pair] = kept;
    }
    cluster_wait();
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
  FfdClustered<T, D, kGroups, kBits>{{{{p, *reinterpret_cast<FfdFusedShared<D, kGroups, kBits>*>(memory)}}}}.run();
#endif
}

}  // namespace attest
