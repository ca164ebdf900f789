// The steps of a decode: scores of the thumbnails, their maxima, which sub-blocks are kept, attention over those, and
// the sum of the parts. A pair is (sequence, KV head); a thread block walks over every splits-th block of its pair.
#include <algorithm>

#include "kernels/decode/base/top_k.cuh"
#include "kernels/decode/reference/ffd_reference_cuda.cuh"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/scratch_layout.h"

namespace attest {
namespace ffd_reference {
namespace {

constexpr int kMinSubBlock = 16;  // tokens
constexpr int kMaxSplits = 1024;  // a constant, so that results do not depend on the GPU's size
constexpr int kSelectThreads = 512;
constexpr int kChannelsPerThread = (kFfdMaxChannels + kFfdBlock - 1) / kFfdBlock;

/// s^ = scale * q . (code - z) * step: a thread per token. Grid (pairs, splits).
__global__ void __launch_bounds__(kFfdBlock) score_kernel(Decode task) {
  __shared__ float query[kFfdMaxChannels], step[kFfdMaxChannels];
  const RowMajorCache& cache = task.cache;
  const int pair = blockIdx.x, token = threadIdx.x, dim = cache.shape.head_dim, bits = cache.shape.bits;
  for (int b = blockIdx.y; b < cache.length(pair) / kFfdBlock; b += task.splits)
    for (int h = 0; h < cache.shape.group; ++h) {
      __syncthreads();
      for (int d = token; d < dim; d += kFfdBlock) {
        query[d] = task.query(pair, h, d);
        step[d] = cache.step(cache.amax(pair, b)[d]);
      }
      __syncthreads();
      const std::uint8_t* codes = cache.codes(pair, b) + token * cache.code_bytes;
      float score = 0;
      for (int d = 0; d < dim; ++d) {
        const int code = codes[d * bits / 8] >> d * bits % 8 & ((1 << bits) - 1);
        score = fmaf(query[d], __fmul_rn(static_cast<float>(code) - cache.offset(), step[d]), score);
      }
      task.scores[(cache.block(pair, b) * kFfdBlock + token) * cache.shape.group + h] = score * task.options.scale;
    }
}

/// A thread per sub-block. Grid (pairs, any).
__global__ void maxima_kernel(Decode task) {
  const int pair = blockIdx.x, group = task.cache.shape.group, stride = static_cast<int>(gridDim.y * blockDim.x);
  for (int part = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x); part < task.parts(pair); part += stride) {
    const std::int64_t at = task.first_part(pair) + part;
    float of_group = lowest();
    for (int h = 0; h < group; ++h) {
      float largest = lowest();
      for (int t = 0; t < task.options.sub_block; ++t)
        largest = fmaxf(largest, task.scores[(at * task.options.sub_block + t) * group + h]);
      task.head_maxima[at * group + h] = largest;
      of_group = fmaxf(of_group, largest);
    }
    task.maxima[at] = of_group;
  }
}

/// Exact score of a key of the first full block (token < 128) or of the last (the next 128).
__device__ float boundary_score(const Decode& task, int pair, int h, int token) {
  const RowMajorCache& cache = task.cache;
  const int dim = cache.shape.head_dim, last = cache.length(pair) / kFfdBlock - 1;
  const std::uint16_t* key =
      (token < kFfdBlock ? cache.sink_keys(pair) : cache.last_keys(pair, last)) + token % kFfdBlock * dim;
  float sum = 0;
  for (int d = 0; d < dim; ++d) sum = fmaf(task.query(pair, h, d), cache.element(key[d]), sum);
  return sum * task.options.scale;
}

/// The largest of this thread's share of the scores that the pseudo-maximum of head h looks at.
__device__ float own_pseudo_max(const Decode& task, int pair, int h) {
  const FfdDecodeOptions& options = task.options;
  const int parts = task.parts(pair), thread = static_cast<int>(threadIdx.x);
  float peak = lowest();
  if (options.pseudo_max == FfdDecodePseudoMax::exact) {
    for (int token = thread; token < 2 * kFfdBlock; token += kSelectThreads)
      if ((token < kFfdBlock ? options.sink_blocks : options.local_blocks) > 0)
        peak = fmaxf(peak, boundary_score(task, pair, h, token));
    return peak;
  }
  const bool all = options.pseudo_max == FfdDecodePseudoMax::global;
  const int sinks = options.sink_blocks * task.per_block(), locals = options.local_blocks * task.per_block();
  for (int part = thread; part < parts; part += kSelectThreads)
    if (all || part < sinks || part >= parts - locals)
      peak = fmaxf(peak, task.head_maxima[(task.first_part(pair) + part) * task.cache.shape.group + h]);
  return peak;
}

/// topdelta: a sub-block is kept if any head's maximum is at least its pseudo-maximum minus delta. A block per pair.
__global__ void __launch_bounds__(kSelectThreads) select_delta_kernel(Decode task) {
  __shared__ float threshold[kFfdMaxGroup], reduced[32];
  __shared__ int counts[32];
  const int pair = blockIdx.x, group = task.cache.shape.group, parts = task.parts(pair);
  for (int h = 0; parts > 0 && h < group; ++h) {
    const float peak = block_reduce(own_pseudo_max(task, pair, h), reduced, Larger{});
    if (threadIdx.x == 0) threshold[h] = peak - task.call.delta[pair % task.cache.shape.num_kv_heads];
  }
  __syncthreads();
  int kept = 0;
  for (int part = static_cast<int>(threadIdx.x); part < parts; part += kSelectThreads) {
    const float* maxima = task.head_maxima + (task.first_part(pair) + part) * group;
    bool keep = false;
    for (int h = 0; h < group; ++h) keep = keep || maxima[h] >= threshold[h];
    task.flags[task.first_part(pair) + part] = keep ? 1 : 0;
    kept += keep ? 1 : 0;
  }
  kept = block_reduce(kept, counts, Plus{});
  if (threadIdx.x == 0 && task.call.kept != nullptr) task.call.kept[pair] = kept;
}

/// topk: the first of those that have the n-th largest maximum. A block per pair.
__global__ void __launch_bounds__(kSelectThreads) select_topk_kernel(Decode task) {
  __shared__ int counts[32];
  const int pair = blockIdx.x, parts = task.parts(pair), n = min(parts, task.options.keep_sub_blocks);
  const float* maxima = task.maxima + task.first_part(pair);
  FfdTopK top;
  if (parts > 0)
    top = largest_maxima(parts, n, [&](auto&& counted) {
      int count = 0;
      for (int part = static_cast<int>(threadIdx.x); part < parts; part += kSelectThreads)
        count += counted(ordered_bits(maxima[part]), part);
      return block_reduce(count, counts, Plus{});
    });
  for (int part = static_cast<int>(threadIdx.x); part < parts; part += kSelectThreads)
    task.flags[task.first_part(pair) + part] = top.keeps(maxima[part], part) ? 1 : 0;
  if (threadIdx.x == 0 && task.call.kept != nullptr) task.call.kept[pair] = n;
}

/// s' = s^ + scale * q . residual of a token of a full block, scale * q . k of one of the tail.
__device__ float refined_score(const Decode& task, const float* query, int pair, int b, int h, bool is_tail) {
  const RowMajorCache& cache = task.cache;
  const int dim = cache.shape.head_dim, token = static_cast<int>(threadIdx.x);
  float sum = 0;
  if (is_tail) {
    const std::uint16_t* key = cache.last_keys(pair, b) + token * dim;
    for (int d = 0; d < dim; ++d) sum = fmaf(query[d], cache.element(key[d]), sum);
    return task.options.scale * sum;
  }
  const std::uint8_t* residual = cache.residual(pair, b) + token * dim;
  for (int d = 0; d < dim; ++d)
    sum = fmaf(query[d], __half2float(__half(__nv_cvt_fp8_to_halfraw(residual[d], __NV_E4M3))), sum);
  return fmaf(task.options.scale, sum, task.scores[(cache.block(pair, b) * kFfdBlock + token) * cache.shape.group + h]);
}

/// Attention of one head over the kept tokens of a split, block by block: a thread has a token of the scores, then
/// channels of the values. Grid (pairs, splits, G).
__global__ void __launch_bounds__(kFfdBlock) attend_kernel(Decode task) {
  __shared__ float query[kFfdMaxChannels], weights[kFfdBlock], reduced[32];
  const RowMajorCache& cache = task.cache;
  const int dim = cache.shape.head_dim, value_dim = cache.shape.value_dim, sub_block = task.options.sub_block;
  const int pair = blockIdx.x, split = blockIdx.y, h = blockIdx.z, thread = threadIdx.x;
  const int length = cache.length(pair), blocks = length / kFfdBlock;
  for (int d = thread; d < dim; d += kFfdBlock) query[d] = task.query(pair, h, d);
  __syncthreads();
  float maximum = lowest(), sum = 0, out[kChannelsPerThread] = {};  // of the tokens so far; sum: of this thread's
  for (int b = split; b <= blocks; b += task.splits) {
    const bool is_tail = b == blocks;
    const int tokens = is_tail ? length - blocks * kFfdBlock : kFfdBlock;
    const std::uint8_t* flags = task.flags + task.first_part(pair) + b * task.per_block();
    const auto is_kept = [&](int t) { return is_tail ? t < tokens : flags[t / sub_block] != 0; };
    const bool kept = is_kept(thread);
    if (!__syncthreads_or(kept)) continue;  // also: the weights of the block before have been read
    const float score = kept ? refined_score(task, query, pair, b, h, is_tail) : lowest();
    const float now = fmaxf(maximum, block_reduce(score, reduced, Larger{})), shrink = expf(maximum - now);
    maximum = now;
    weights[thread] = kept ? expf(score - now) : 0.0f;
    sum = fmaf(sum, shrink, weights[thread]);
    for (float& x : out) x *= shrink;
    __syncthreads();
    const std::uint16_t* values = is_tail ? cache.tail_values(pair) : cache.values(pair, b);
    for (int t = 0; t < tokens; ++t) {
      if (!is_kept(t)) continue;
#pragma unroll
      for (int c = 0; c < kChannelsPerThread; ++c)
        if (const int d = c * kFfdBlock + thread; d < value_dim)
          out[c] = fmaf(weights[t], cache.element(values[t * value_dim + d]), out[c]);
    }
  }
  sum = block_reduce(sum, reduced, Plus{});
  const std::int64_t at = (static_cast<std::int64_t>(pair) * task.splits + split) * cache.shape.group + h;
  if (thread == 0) task.split_max[at] = maximum, task.split_sum[at] = sum;
#pragma unroll
  for (int c = 0; c < kChannelsPerThread; ++c)
    if (const int d = c * kFfdBlock + thread; d < value_dim) task.split_out[at * value_dim + d] = out[c];
}

/// Adds the splits up in their order. Grid (pairs, G).
__global__ void __launch_bounds__(kFfdBlock) merge_kernel(Decode task) {
  __shared__ float share[kMaxSplits], reduced[32];
  const FfdCacheShape& shape = task.cache.shape;
  const int pair = blockIdx.x, h = blockIdx.y, thread = threadIdx.x;
  const auto at = [&](int split) { return (static_cast<std::int64_t>(pair) * task.splits + split) * shape.group + h; };
  const float sink =
      task.call.sinks == nullptr ? lowest() : task.call.sinks[pair % shape.num_kv_heads * shape.group + h];
  float maximum = sink;
  for (int split = thread; split < task.splits; split += kFfdBlock) maximum = fmaxf(maximum, task.split_max[at(split)]);
  maximum = block_reduce(maximum, reduced, Larger{});
  float sum = 0;
  for (int split = thread; split < task.splits; split += kFfdBlock) {
    const float own = task.split_sum[at(split)];
    share[split] = own > 0 ? expf(task.split_max[at(split)] - maximum) : 0.0f;
    sum += own * share[split];
  }
  sum = block_reduce(sum, reduced, Plus{});  // also: all shares are written
  if (sink > lowest()) sum += expf(sink - maximum);
  const std::int64_t row = static_cast<std::int64_t>(pair) * shape.group + h;
  for (int d = thread; d < shape.value_dim; d += kFfdBlock) {
    float out = 0;
    for (int split = 0; split < task.splits; ++split)
      if (share[split] > 0) out = fmaf(share[split], task.split_out[at(split) * shape.value_dim + d], out);
    out = sum > 0 ? out / sum : 0.0f;
    static_cast<std::uint16_t*>(task.call.out)[row * shape.value_dim + d] =
        shape.element_type == ElementType::bfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(out))
                                                    : __half_as_ushort(__float2half_rn(out));
  }
  if (thread == 0) task.call.lse[row] = sum > 0 ? maximum + logf(sum) : lowest();
}

/// Thread blocks that share a pair: kMaxSplits in all, enough for several on each multiprocessor.
int splits_of(const FfdCacheShape& shape) {
  const std::int64_t wanted = (kMaxSplits + shape.pairs() - 1) / shape.pairs();
  return static_cast<int>(std::min(wanted, shape.max_blocks() + 1));
}

/// Hands out scratch memory, or with a null `base` counts it; returns the bytes.
std::size_t place_scratch(Decode& task, std::byte* base) {
  const FfdCacheShape& shape = task.cache.shape;
  ScratchLayout layout(base);
  const std::int64_t blocks = shape.pairs() * shape.max_blocks(), parts = blocks * (kFfdBlock / kMinSubBlock);
  const std::int64_t splits = shape.pairs() * task.splits * shape.group;
  layout.take(task.scores, blocks * kFfdBlock * shape.group);
  layout.take(task.head_maxima, parts * shape.group);
  layout.take(task.maxima, parts);
  layout.take(task.flags, parts);
  layout.take(task.split_max, splits);
  layout.take(task.split_sum, splits);
  layout.take(task.split_out, splits * shape.value_dim);
  return layout.used();
}

Decode decode_of(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                 const FfdDecodeOptions& options, const FfdDecodeCall& call) {
  Decode task{.cache = {shape, view}, .options = options, .call = call, .splits = splits_of(shape)};
  place_scratch(task, scratch);
  return task;
}

void scan(const Decode& task, cudaStream_t stream) {
  const FfdCacheShape& shape = task.cache.shape;
  if (shape.max_blocks() == 0) return;
  const dim3 grid(static_cast<unsigned>(shape.pairs()), static_cast<unsigned>(task.splits));
  score_kernel<<<grid, kFfdBlock, 0, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(score_kernel);
  maxima_kernel<<<grid, kFfdBlock, 0, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(maxima_kernel);
}

}  // namespace
}  // namespace ffd_reference

using namespace ffd_reference;

std::size_t ffd_reference_scratch_bytes(const FfdCacheShape& shape) {
  Decode task{.cache = {shape, {}}, .splits = splits_of(shape)};
  return place_scratch(task, nullptr);
}

void cuda_ffd_reference_decode(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                               const FfdDecodeOptions& options, const FfdDecodeCall& call, cudaStream_t stream) {
  const Decode task = decode_of(shape, view, scratch, options, call);
  const auto pairs = static_cast<unsigned>(shape.pairs()), group = static_cast<unsigned>(shape.group);
  scan(task, stream);
  if (options.rule == FfdDecodeRule::topk) {
    select_topk_kernel<<<pairs, kSelectThreads, 0, stream>>>(task);
    ATTEST_CUDA_LAUNCHED(select_topk_kernel);
  } else {
    select_delta_kernel<<<pairs, kSelectThreads, 0, stream>>>(task);
    ATTEST_CUDA_LAUNCHED(select_delta_kernel);
  }
  attend_kernel<<<dim3(pairs, static_cast<unsigned>(task.splits), group), kFfdBlock, 0, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(attend_kernel);
  merge_kernel<<<dim3(pairs, group), kFfdBlock, 0, stream>>>(task);
  ATTEST_CUDA_LAUNCHED(merge_kernel);
}

void cuda_ffd_reference_scan(const FfdCacheShape& shape, const FfdCacheView& view, std::byte* scratch,
                             const FfdDecodeOptions& options, const FfdScanCall& call, cudaStream_t stream) {
  Decode task = decode_of(shape, view, scratch, options, {.q = call.q});
  task.maxima = call.maxima;
  if (call.scores != nullptr) task.scores = call.scores;
  scan(task, stream);
}

}  // namespace attest
