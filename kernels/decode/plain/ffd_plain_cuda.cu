// FFD's decode on a plain cache: scan, selection, refinement and merge, a launch each.
#include <algorithm>

#include "kernels/decode/plain/ffd_plain_cuda.cuh"
#include "kernels/decode/plain/ffd_plain_cuda.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"

namespace attest {
namespace ffd_plain {
namespace {

constexpr int kMergeThreads = 128;
constexpr int kMostSplits = 1024;  ///< of a pair; a constant, so that results do not depend on the GPU's size

/// Thread blocks that share a pair: about 1024 in all, more than any GPU runs at once.
int splits_of(const FfdCacheShape& shape) {
  const std::int64_t wanted = (1024 + shape.pairs() - 1) / shape.pairs();
  return static_cast<int>(std::min({wanted, shape.max_blocks() + 1, std::int64_t{kMostSplits}}));
}

struct PlainScratch {
  float *scores, *head_maxima, *group_maxima;
  std::uint8_t* flags;
  PlainPartials partials;
  std::size_t bytes;

  PlainScratch(const FfdCacheShape& shape, std::byte* base) {
    std::size_t used = 0;
    const auto take = [&]<class T>(T*& to, std::int64_t count) {
      to = reinterpret_cast<T*>(base + used);
      used += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    };
    const std::int64_t blocks = shape.pairs() * shape.max_blocks(), parts = blocks * (kFfdBlock / kLeastSubBlock);
    const std::int64_t partials_count = shape.pairs() * splits_of(shape) * shape.group;
    take(scores, blocks * kFfdBlock * shape.group);
    take(head_maxima, parts * shape.group);
    take(group_maxima, parts);
    take(flags, parts);
    take(partials.max, partials_count);
    take(partials.sum, partials_count);
    take(partials.out, partials_count * shape.value_dim);
    bytes = used;
  }
};

struct PlainMerge {
  FfdCacheShape shape;
  PlainPartials partials;
  int splits;
  const float* sinks;  ///< [Hq], or null
  void* out;           ///< [pairs, G, Dv]
  float* lse;          ///< [pairs, G]
};

__device__ std::uint16_t rounded(ElementType type, float x) {
  return type == ElementType::bfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                                       : __half_as_ushort(__float2half_rn(x));
}

/// Grid (pairs, G). Adds the splits up in their order.
__global__ void __launch_bounds__(kMergeThreads) plain_merge_kernel(PlainMerge task) {
  __shared__ float share[kMostSplits], reduced[32];
  const int pair = blockIdx.x, h = blockIdx.y, group = task.shape.group, value_dim = task.shape.value_dim;
  const auto partial = [&](int split) { return (static_cast<std::int64_t>(pair) * task.splits + split) * group + h; };
  const float lowest = -__int_as_float(0x7F800000);
  const float sink = task.sinks == nullptr ? lowest : task.sinks[pair % task.shape.num_kv_heads * group + h];
  float most = sink;
  for (int split = threadIdx.x; split < task.splits; split += kMergeThreads)
    most = fmaxf(most, task.partials.max[partial(split)]);
  most = block_reduce(most, reduced, Larger{});
  float sum = 0;
  for (int split = threadIdx.x; split < task.splits; split += kMergeThreads) {
    const float of_split = task.partials.sum[partial(split)];
    share[split] = of_split > 0 ? expf(task.partials.max[partial(split)] - most) : 0.0f;
    sum += of_split * share[split];
  }
  sum = block_reduce(sum, reduced, Plus{});  // also: all shares are written
  if (sink > lowest) sum += expf(sink - most);
  const std::int64_t row = static_cast<std::int64_t>(pair) * group + h;
  for (int d = threadIdx.x; d < value_dim; d += kMergeThreads) {
    float out = 0;
    for (int split = 0; split < task.splits; ++split)
      if (share[split] > 0) out = fmaf(share[split], task.partials.out[partial(split) * value_dim + d], out);
    static_cast<std::uint16_t*>(task.out)[row * value_dim + d] =
        rounded(task.shape.element_type, sum > 0 ? out / sum : 0.0f);
  }
  if (threadIdx.x == 0) task.lse[row] = sum > 0 ? most + logf(sum) : lowest;
}

void launch_plain_merge(const PlainMerge& task, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(task.shape.pairs()), static_cast<unsigned>(task.shape.group));
  plain_merge_kernel<<<grid, kMergeThreads, 0, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(plain_merge_kernel);
}

}  // namespace
}  // namespace ffd_plain

using namespace ffd_plain;

std::size_t ffd_plain_scratch_bytes(const FfdCacheShape& shape) { return PlainScratch(shape, nullptr).bytes; }

void cuda_ffd_plain_decode(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                           const FfdDecodeOptions& options, const FfdDecodeCall& call, cudaStream_t stream) {
  const PlainCache cache = plain_cache(shape, view);
  const PlainScratch own(shape, scratch);
  const int splits = splits_of(shape);
  launch_plain_scan(
      {cache, call.q, options.scale, options.sub_block, own.scores, own.head_maxima, own.group_maxima, splits}, stream);
  launch_plain_select({cache, options, call.q, call.delta, own.head_maxima, own.group_maxima, own.flags, call.kept},
                      stream);
  launch_plain_refine({cache, call.q, options.scale, options.sub_block, own.scores, own.flags, own.partials, splits},
                      stream);
  launch_plain_merge({shape, own.partials, splits, call.sinks, call.out, call.lse}, stream);
}

void cuda_ffd_plain_scan(const FfdCacheShape& shape, const FfdCacheView& view, const FfdDecodeOptions& options,
                         const FfdScanCall& call, cudaStream_t stream) {
  launch_plain_scan({plain_cache(shape, view), call.q, options.scale, options.sub_block, call.scores, nullptr,
                     call.maxima, splits_of(shape)},
                    stream);
}

}  // namespace attest
