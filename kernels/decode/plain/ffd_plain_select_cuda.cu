// Which sub-blocks of a plain FFD cache are kept. One thread block per pair.
#include <cub/block/block_scan.cuh>

#include "kernels/decode/plain/ffd_plain_cuda.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest::ffd_plain {
namespace {

constexpr int kThreads = 512;

struct Parts {
  int blocks, per_block, count;  ///< full blocks, sub-blocks of a block, sub-blocks of the pair
  std::int64_t first;            ///< of the pair, in arrays over sub-blocks

  __device__ Parts(const PlainSelect& task, int pair)
      : blocks(task.cache.length(pair) / kFfdBlock),
        per_block(kFfdBlock / task.options.sub_block),
        count(blocks * per_block),
        first(task.cache.block(pair, 0) * per_block) {}
};

/// Exact score of a key of the sink block (token < 128) or the local block (the next 128).
__device__ float end_score(const PlainSelect& task, const Parts& parts, int pair, int h, int token) {
  const FfdCacheShape& shape = task.cache.shape;
  const std::uint16_t* block =
      token < kFfdBlock ? task.cache.sink_keys(pair) : task.cache.last_keys(pair, parts.blocks - 1);
  const std::uint16_t* key = block + token % kFfdBlock * shape.head_dim;
  const auto* query =
      static_cast<const std::uint16_t*>(task.q) + (static_cast<std::int64_t>(pair) * shape.group + h) * shape.head_dim;
  float sum = 0;
  for (int d = 0; d < shape.head_dim; ++d)
    sum = fmaf(element(shape.element_type, query[d]), element(shape.element_type, key[d]), sum);
  return sum * task.options.scale;
}

/// The largest of this thread's share of the scores that the pseudo-maximum of head h looks at.
__device__ float own_peak(const PlainSelect& task, const Parts& parts, int pair, int h) {
  const FfdDecodeOptions& options = task.options;
  float peak = -__int_as_float(0x7F800000);
  if (options.pseudo_max == FfdReference::exact) {
    for (int token = threadIdx.x; token < 2 * kFfdBlock; token += kThreads)
      if ((token < kFfdBlock ? options.sink_blocks : options.local_blocks) > 0)
        peak = fmaxf(peak, end_score(task, parts, pair, h, token));
    return peak;
  }
  const bool all = options.pseudo_max == FfdReference::global;
  const int sink = all ? parts.count : min(parts.count, options.sink_blocks * parts.per_block);
  const int local = all ? 0 : min(parts.count, options.local_blocks * parts.per_block);
  for (int i = threadIdx.x; i < sink + local; i += kThreads) {
    const int part = i < sink ? i : parts.count - local + (i - sink);
    peak = fmaxf(peak, task.head_maxima[(parts.first + part) * task.cache.shape.group + h]);
  }
  return peak;
}

__global__ void __launch_bounds__(kThreads) plain_delta_kernel(PlainSelect task) {
  __shared__ float threshold[kFfdMostGroup], reduced[32];
  __shared__ int counts[32];
  const int pair = blockIdx.x, group = task.cache.shape.group;
  const Parts parts(task, pair);
  if (parts.count > 0)
    for (int h = 0; h < group; ++h) {
      const float peak = block_reduce(own_peak(task, parts, pair, h), reduced, Larger{});
      if (threadIdx.x == 0) threshold[h] = peak - task.delta[pair % task.cache.shape.num_kv_heads];
    }
  __syncthreads();
  int kept = 0;
  for (int part = threadIdx.x; part < parts.count; part += kThreads) {
    const float* maxima = task.head_maxima + (parts.first + part) * group;
    bool keep = false;
    for (int h = 0; h < group; ++h) keep = keep || maxima[h] >= threshold[h];
    task.flags[parts.first + part] = keep ? 1 : 0;
    kept += keep ? 1 : 0;
  }
  kept = block_reduce(kept, counts, Plus{});
  if (threadIdx.x == 0 && task.kept != nullptr) task.kept[pair] = kept;
}

/// The n-th largest maximum is found bit by bit; of those that equal it the first are kept.
__global__ void __launch_bounds__(kThreads) plain_topk_kernel(PlainSelect task) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage scan_storage;
  __shared__ int counts[32];
  const int pair = blockIdx.x;
  const Parts parts(task, pair);
  const int n = min(parts.count, task.options.keep_sub_blocks), share = (parts.count + kThreads - 1) / kThreads;
  const int begin = min(parts.count, static_cast<int>(threadIdx.x) * share), end = min(parts.count, begin + share);
  const float* maxima = task.group_maxima + parts.first;
  const auto count_from = [&](std::uint32_t image) {
    int count = 0;
    for (int part = threadIdx.x; part < parts.count; part += kThreads) count += sortable_bits(maxima[part]) >= image;
    return block_reduce(count, counts, Plus{});
  };
  std::uint32_t border = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t tried = border | (1u << bit);
    if (count_from(tried) >= n) border = tried;
  }
  int above = 0, equal = 0, before = 0;
  for (int part = begin; part < end; ++part) {
    const std::uint32_t image = sortable_bits(maxima[part]);
    above += image > border;
    equal += image == border;
  }
  Scan(scan_storage).ExclusiveSum(equal, before);
  int left = n - block_reduce(above, counts, Plus{}) - before;  // of equal ones that may be kept from `begin` on
  for (int part = begin; part < end; ++part) {
    const std::uint32_t image = sortable_bits(maxima[part]);
    const bool keep = image > border || (image == border && left-- > 0);
    task.flags[parts.first + part] = keep ? 1 : 0;
  }
  if (threadIdx.x == 0 && task.kept != nullptr) task.kept[pair] = n;
}

}  // namespace

void launch_plain_select(const PlainSelect& task, cudaStream_t stream) {
  const auto pairs = static_cast<unsigned>(task.cache.shape.pairs());
  if (task.options.rule == FfdDecodeRule::topk) {
    plain_topk_kernel<<<pairs, kThreads, 0, stream>>>(task);
    ATTEST_CUDA_LAUNCHED(plain_topk_kernel);
  } else {
    plain_delta_kernel<<<pairs, kThreads, 0, stream>>>(task);
    ATTEST_CUDA_LAUNCHED(plain_delta_kernel);
  }
}

}  // namespace attest::ffd_plain
