// Quantises keys to 2 bits, and scores them on tensor cores.
//
// q.k^ = sum over channels of (q s) code + q lowest. Codes are exact in bfloat16; q s, a float32, is the sum of two
// bfloat16 parts to 16 bits. The parts of 8 heads are the 16 rows of one product, so that the second part is free.
#include <algorithm>
#include <string>

#include "dumps/base/error.h"
#include "kernels/decode/baselines/kivi_scan_cuda.h"
#include "kernels/decode/baselines/score_output.cuh"
#include "kernels/decode/baselines/token_tiles.cuh"
#include "kernels/decode/baselines/work_shares.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/octet.cuh"
#include "kernels/quantize/kivi_groups_cuda.cuh"

namespace attest {
namespace {

constexpr int kKiviWarps = 8, kKiviThreads = 32 * kKiviWarps;
constexpr int kResident = 2;  // thread blocks per multiprocessor
constexpr int kTokenTiles = kKiviGroup / 8;

/// A thread block per (group, pair), a thread per channel.
template <ElementType kType, int kDim>
__global__ void __launch_bounds__(kDim) quantise_kernel(const ExactCache cache, const KiviKeysView view) {
  __shared__ std::uint8_t codes[kKiviGroup][kDim];
  const int group = static_cast<int>(blockIdx.x), pair = static_cast<int>(blockIdx.y);
  const int channel = static_cast<int>(threadIdx.x);
  if (group >= kivi_quantised_tokens(cache.length_of(pair)) / kKiviGroup) return;
  const std::uint16_t* keys = cache.keys_of(pair) + static_cast<std::int64_t>(group) * kKiviGroup * kDim + channel;
  const auto key = [&](int t) {
    const std::uint16_t bits = keys[t * kDim];
    if constexpr (kType == ElementType::bfloat16) return __uint_as_float(std::uint32_t{bits} << 16);
    return __half2float(__ushort_as_half(bits));
  };
  float x[kKiviGroup], lowest = INFINITY, highest = -INFINITY;
#pragma unroll
  for (int t = 0; t < kKiviGroup; ++t) {
    x[t] = key(t);
    lowest = fminf(lowest, x[t]);
    highest = fmaxf(highest, x[t]);
  }
  const KiviQuantizer quantizer{2, kKiviGroup, QuantArithmetic::dump, kType};
  const float scale = kivi_scale(quantizer, lowest, highest);
#pragma unroll
  for (int t = 0; t < kKiviGroup; ++t)
    codes[t][channel] = static_cast<std::uint8_t>(kivi_code_as_dump(quantizer, lowest, scale, x[t]));
  const std::int64_t at = static_cast<std::int64_t>(pair) * view.max_groups + group;
  const std::uint32_t both = packed<DeviceElement<kType>>(lowest, scale);
  view.lowest[at * kDim + channel] = static_cast<std::uint16_t>(both & 0xFFFFu);
  view.scales[at * kDim + channel] = static_cast<std::uint16_t>(both >> 16);
  __syncthreads();
  for (int w = channel; w < 2 * kDim; w += kDim) {
    const int lane = w / 4 % 32, k = w / 128 * 4 + w % 4;
    const int first_channel = k / 2 * 32 + lane % 4 * 8, first_token = k % 2 * 16 + lane / 4;
    std::uint32_t word = 0;
    for (int r = 0; r < 8; ++r) {
      const std::uint8_t* two = &codes[first_token + r / 4 * 8][first_channel + r % 4 * 2];
      word |= std::uint32_t{two[0]} << (2 * r) | std::uint32_t{two[1]} << (2 * r + 16);
    }
    view.codes[at * 2 * kDim + w] = word;
  }
}

/// What a lane needs of a group of 32 tokens: of channels [32 c, 32 c + 32) scales[c] and half of codes[c / 2].
template <int kDim>
struct GroupTile {
  uint4 codes[kDim / 64], scales[kDim / 32];
  uint4 lowest;  // of channels 32 lane_row + 8 lane_quad; 0 in the rows beyond

  /// Loads what step c of a group is the last to use. `group` counts from the first group of all pairs.
  __device__ void load(const KiviKeysView& view, std::int64_t group, int c, int lane) {
    const std::int64_t first = group * kDim;
    scales[c] = __ldg(reinterpret_cast<const uint4*>(view.scales + first + c * 32 + lane_quad(lane) * 8));
    if (c % 2 == 1) codes[c / 2] = load_streamed(view.codes + 2 * first + (c / 2 * 32 + lane) * 4);
    if (c != kDim / 32 - 1) return;
    lowest = {0, 0, 0, 0};
    if (lane_row(lane) < kDim / 32)
      lowest = __ldg(reinterpret_cast<const uint4*>(view.lowest + first + lane_row(lane) * 32 + lane_quad(lane) * 8));
  }
  __device__ void load(const KiviKeysView& view, std::int64_t group, int lane) {
#pragma unroll
    for (int c = 0; c < kDim / 32; ++c) load(view, group, c, lane);
  }
};

/// Codes of the eight registers of a word, as bfloat16. 128 + 4^i code is a bfloat16 with the code's bits in it.
__device__ inline void unpack_codes(std::uint32_t word, std::uint32_t (&out)[8]) {
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int i = r % 3;
    if (r > 0 && i == 0) word >>= 6;
    const std::uint32_t bits = (word & (0x00030003u << (2 * i))) | 0x43004300u;
    const float factor = i == 0 ? 1.0f : i == 1 ? 0.25f : 0.0625f;
    const __nv_bfloat162 code = __hfma2(reinterpret_cast<const __nv_bfloat162&>(bits), __float2bfloat162_rn(factor),
                                        __float2bfloat162_rn(-128 * factor));
    out[r] = reinterpret_cast<const std::uint32_t&>(code);
  }
}

/// sums[n] += queries times scaled codes; rows 0..7 of the products are the first parts of q s, rows 8..15 the second.
template <ElementType kType, int kDim>
__device__ void multiply_codes(const uint4 (&q)[kDim / 32], const GroupTile<kDim>& group, int c,
                               const std::uint32_t (&codes)[2][8], float (&sums)[kTokenTiles][4]) {
  float of_query[kOctet], scale[kOctet];
  unpack(kType, RawOctet<false>{{q[c]}}, of_query);
  unpack(kType, RawOctet<false>{{group.scales[c]}}, scale);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) of_query[i] *= scale[i];
  const uint4 high = split_leading_bf16(of_query), low = split_leading_bf16(of_query);
  const std::uint32_t first[4] = {high.x, low.x, high.y, low.y}, second[4] = {high.z, low.z, high.w, low.w};
#pragma unroll
  for (int n = 0; n < kTokenTiles; ++n) {
    const std::uint32_t* own = codes[n / 2] + n % 2 * 4;
    multiply_add(sums[n], first, own[0], own[1]);
    multiply_add(sums[n], second, own[2], own[3]);
  }
}

/// The scores of the group of 32 tokens in `group`, which takes up group `next` meanwhile; a warp.
template <ElementType kType, int kDim, int kHalves>
__device__ void score_group(const QueryTile<kDim>& q, GroupTile<kDim>& group, const KiviKeysView& view,
                            std::int64_t next, int lane, float (&scores)[kHalves][kTokenTiles][2]) {
  float sums[kHalves][kTokenTiles][4] = {}, of_lowest[4] = {};
#pragma unroll
  for (int c = 0; c < kDim / 32; ++c) {
    const uint4& packed = group.codes[c / 2];
    std::uint32_t codes[2][8];
    unpack_codes(c % 2 == 0 ? packed.x : packed.z, codes[0]);
    unpack_codes(c % 2 == 0 ? packed.y : packed.w, codes[1]);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) multiply_codes<kType, kDim>(q.rows[half], group, c, codes, sums[half]);
    // Column c of this product is q.lowest over the channels of step c.
    const uint4 &low = q.rows[0][c], &high = q.rows[1][c];
    const std::uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
    const bool own = lane_row(lane) == c;
    multiply_add<DeviceElement<kType>>(of_lowest, first, own ? group.lowest.x : 0, own ? group.lowest.y : 0);
    multiply_add<DeviceElement<kType>>(of_lowest, second, own ? group.lowest.z : 0, own ? group.lowest.w : 0);
    group.load(view, next, c, lane);
  }
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    float constant = of_lowest[2 * half] + of_lowest[2 * half + 1];
    constant += __shfl_xor_sync(0xFFFFFFFFu, constant, 1);
    constant += __shfl_xor_sync(0xFFFFFFFFu, constant, 2);
#pragma unroll
    for (int n = 0; n < kTokenTiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) scores[half][n][e] = (sums[half][n][e] + sums[half][n][2 + e]) + constant;
  }
}

/// scores [max_tokens, G] of a pair, from those of a lane: s[half][n][e] is head lane_row + 8 half, token
/// first + score_token(n, e, lane).
template <int kHalves, int kCount>
__device__ void store(const ExactCache& cache, const float (&s)[kHalves][kCount][2], int first, int length, int lane,
                      float* scores) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half)
#pragma unroll
    for (int n = 0; n < kCount; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int token = first + score_token(n, e, lane), head = lane_row(lane) + half * 8;
        if (token < length && head < cache.group)
          scores[static_cast<std::int64_t>(token) * cache.group + head] = s[half][n][e] * cache.scale;
      }
}

/// A warp scores 32 tokens at a time. kHalves: 1 for at most 8 heads, else 2.
template <ElementType kType, int kDim, int kHalves>
__global__ void __launch_bounds__(kKiviThreads, kResident)
    kivi_scan_kernel(const ExactCache cache, const KiviKeysView view, const void* queries, float* all_scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto groups_of = [&](int pair) { return (cache.length_of(pair) + kKiviGroup - 1) / kKiviGroup; };
  const WorkShares shares(items_before(cache.pairs(), groups_of), static_cast<int>(gridDim.x), kKiviWarps);
  for_own_items(shares, static_cast<int>(blockIdx.x), cache.pairs(), groups_of, [&](int pair, int begin, int end) {
    const int length = cache.length_of(pair);
    const int last = min(end, kivi_quantised_tokens(length) / kKiviGroup) - 1;  // of the groups that are codes
    const std::int64_t first_group = static_cast<std::int64_t>(pair) * view.max_groups;
    float* scores = all_scores + pair * cache.max_tokens * cache.group;
    int group = begin + warp;
    GroupTile<kDim> tile;
    QueryTile<kDim> q;
    if (group <= last) tile.load(view, first_group + group, lane);
    q.template load<kHalves>(cache.queries_of(pair, queries), cache.group, lane);
    for (; group <= last; group += kKiviWarps) {
      float s[kHalves][kTokenTiles][2];
      score_group<kType>(q, tile, view, first_group + min(group + kKiviWarps, last), lane, s);
      store(cache, s, group * kKiviGroup, length, lane, scores);
    }
    for (; group < end; group += kKiviWarps)
      for (int first = group * kKiviGroup; first < (group + 1) * kKiviGroup; first += kWarpTokens) {
        KeyTile<kDim> k;
        TileScores exact;
        k.load(cache.keys_of(pair), first, length, lane);
        multiply_keys<kType>(q, k, exact);
        store_scores(exact, cache.scale, scores, cache.group, first, length, lane);
      }
  });
}

int max_groups_of(const ExactCache& cache) {
  return kivi_quantised_tokens(static_cast<int>(cache.max_tokens)) / kKiviGroup;
}

void check_same_shape(const ExactCache& cache, const KiviKeysView& keys) {
  check_exact_cache(cache);
  const auto shape = [](std::int64_t pairs, int groups, int head_dim) {
    return std::to_string(pairs) + " KV heads of " + std::to_string(groups) + " groups of tokens and " +
           std::to_string(head_dim) + " channels";
  };
  if (keys.pairs != cache.pairs() || keys.head_dim != cache.head_dim || keys.max_groups != max_groups_of(cache))
    throw InputError("KIVI scan: the cache has " + shape(cache.pairs(), max_groups_of(cache), cache.head_dim) +
                     ", expected those of the codes, " + shape(keys.pairs, keys.max_groups, keys.head_dim));
}

}  // namespace

KiviKeys2Bit::KiviKeys2Bit(const ExactCache& shape) {
  check_exact_cache(shape);
  view_.pairs = static_cast<int>(shape.pairs()), view_.head_dim = shape.head_dim;
  view_.max_groups = max_groups_of(shape);
  const std::size_t elements = static_cast<std::size_t>(shape.pairs()) * view_.max_groups * shape.head_dim;
  memory_.reserve(std::max<std::size_t>(1, elements) * 12);
  view_.codes = reinterpret_cast<std::uint32_t*>(memory_.data());
  view_.scales = reinterpret_cast<std::uint16_t*>(view_.codes + 2 * elements);
  view_.lowest = view_.scales + elements;
}

void KiviKeys2Bit::build(const ExactCache& cache, cudaStream_t stream) {
  check_same_shape(cache, view_);
  if (view_.max_groups == 0) return;
  const dim3 grid(static_cast<unsigned>(view_.max_groups), static_cast<unsigned>(cache.pairs()));
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr int kDim = decltype(dim)::value;
    quantise_kernel<decltype(type)::value, kDim><<<grid, kDim, 0, stream>>>(cache, view_);
    ATTEST_CUDA_LAUNCHED(quantise_kernel);
  });
}

void cuda_kivi_scan(const ExactCache& cache, const KiviKeysView& keys, const void* q, float* scores,
                    cudaStream_t stream) {
  check_same_shape(cache, keys);
  const auto blocks = static_cast<unsigned>(kResident * num_multiprocessors());
  with_tiles_of(cache, [&](auto type, auto dim) {
    constexpr ElementType kType = decltype(type)::value;
    constexpr int kDim = decltype(dim)::value;
    const auto kernel = cache.group <= 8 ? kivi_scan_kernel<kType, kDim, 1> : kivi_scan_kernel<kType, kDim, 2>;
    kernel<<<blocks, kKiviThreads, 0, stream>>>(cache, keys, q, scores);
    ATTEST_CUDA_LAUNCHED(kivi_scan_kernel);
  });
}

}  // namespace attest
