// A sort of one row by one block in shared memory, in one pass: items fall into buckets of a few, by an increasing
// function of their values that follows the row's own distribution, and each finds its place among those of its bucket.
// Rows with more ties or lumps than buckets hold are left to the radix sort.
#pragma once

#include <cstdint>

#include "kernels/device/block_reduce.cuh"
#include "kernels/rank/sort_in_block.cuh"

namespace attest::sort_by_buckets {

using sort_in_block::kPerLane;
using sort_in_block::kThreads;

inline constexpr int kBuckets = 8192;  // of four items on average, in a full row
inline constexpr int kMostInBucket = 48;
inline constexpr int kBins = kThreads;       // of the histogram that the buckets are shared out by
inline constexpr int kTailBins = kBins / 8;  // of these, beyond kBody standard deviations on either side
inline constexpr float kBody = 4;
/// Long rows are described by every fourth item.
__device__ inline int sampling_step(int count) { return count > 8192 ? 4 : 1; }

/// Shared memory beside keys and items.
struct Tables {
  std::uint32_t buckets[kBuckets / 2 + 1];  // 16-bit counters, then places of first items
  std::uint32_t bins[kBins];                // counters, then first bucket and number of buckets
  float floats[32];
  std::uint32_t words[32];

  __device__ std::uint32_t bucket(int b) const { return buckets[b / 2] >> (b % 2 * 16) & 0xFFFFu; }
};

/// Increasing, and linear in three pieces.
struct Scale {
  float lowest, low, high, per_low, per_body, per_high;

  __device__ Scale(float least, float most, float mean, float deviation) : lowest(least) {
    low = fmaxf(least, mean - kBody * deviation);
    high = fminf(most, mean + kBody * deviation);
    per_low = low > least ? kTailBins / (low - least) : 0;
    per_body = high > low ? (kBins - 2 * kTailBins) / (high - low) : 0;
    per_high = most > high ? kTailBins / (most - high) : 0;
  }
  /// Bin and place within it, 0 to 1; more beyond the last of a piece.
  __device__ int bin(float value, float& within) const {
    const bool in_low = value<low, in_high = value> high;
    const float t = in_low    ? (value - lowest) * per_low
                    : in_high ? (value - high) * per_high
                              : (value - low) * per_body;
    const int first = in_low    ? 0
                      : in_high ? kBins - kTailBins
                                : kTailBins,
              count = in_low || in_high ? kTailBins : kBins - 2 * kTailBins;
    const int index = max(0, min(static_cast<int>(t), count - 1));
    within = fmaxf(0.0f, t - static_cast<float>(index));
    return first + index;
  }
};

/// Increasing in the key, which is the descending image of a value.
__device__ inline float value_of(std::uint32_t key) { return -from_ordered_image(~key); }

/// Sum of `own` over the threads before this one. words [32]
__device__ inline std::uint32_t sum_before(std::uint32_t own, std::uint32_t* words) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t inclusive = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const std::uint32_t below = __shfl_up_sync(0xFFFFFFFFu, inclusive, offset);
    if (lane >= offset) inclusive += below;
  }
  __syncthreads();
  if (lane == 31) words[warp] = inclusive;
  __syncthreads();
  std::uint32_t before = inclusive - own;
  for (int w = 0; w < warp; ++w) before += words[w];
  return before;
}

__device__ inline Scale scale_of_row(const std::uint32_t* keys, int count, Tables& tables) {
  float least = value_of(keys[0]), most = least, sum = 0, squares = 0;
  const float origin = value_of(keys[count / 2]);
  const int step = sampling_step(count), samples = (count + step - 1) / step;
  for (int i = threadIdx.x; i < samples; i += kThreads) {
    const float value = value_of(keys[i * step]), d = value - origin;
    least = fminf(least, value), most = fmaxf(most, value);
    sum += d, squares += d * d;
  }
  least = block_reduce(least, tables.floats, Smaller{});
  most = block_reduce(most, tables.floats, Larger{});
  sum = block_reduce(sum, tables.floats, Plus{}) / static_cast<float>(samples);
  squares = block_reduce(squares, tables.floats, Plus{}) / static_cast<float>(samples);
  return {least, most, origin + sum, sqrtf(fmaxf(0.0f, squares - sum * sum))};
}

/// items[0 .. count) in ascending order of keys[item], equal keys in ascending item, like sort_in_block::sort(); false,
/// and items undefined, where a bucket overflows.
__device__ inline bool sort(const std::uint32_t* keys, std::uint16_t* items, int count, Tables& tables) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kBuckets / 2 + 1; i += kThreads) tables.buckets[i] = 0;
  tables.bins[thread] = 0;
  const Scale scale = scale_of_row(keys, count, tables);
  float within = 0;
  const int step = sampling_step(count), samples = (count + step - 1) / step;
  for (int i = thread; i < samples; i += kThreads)
    atomicAdd(&tables.bins[scale.bin(value_of(keys[i * step]), within)], 1u);
  __syncthreads();
  const auto shared_out = static_cast<std::uint32_t>(kBuckets - kBins);  // beside one for each bin
  const std::uint32_t own_buckets = 1 + tables.bins[thread] * shared_out / static_cast<std::uint32_t>(samples);
  const std::uint32_t first_bucket = sum_before(own_buckets, tables.words);
  tables.bins[thread] = first_bucket << 16 | own_buckets;
  __syncthreads();

  std::uint32_t bucket_and_place[kPerLane];  // in the upper half the place among the bucket's items
  bool overflows = false;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int item = k * kThreads + thread;
    if (item >= count) break;
    const std::uint32_t buckets = tables.bins[scale.bin(value_of(keys[item]), within)], number = buckets & 0xFFFFu;
    const std::uint32_t bucket =
        (buckets >> 16) + min(static_cast<std::uint32_t>(within * static_cast<float>(number)), number - 1);
    const std::uint32_t shift = bucket % 2 * 16,
                        place = atomicAdd(&tables.buckets[bucket / 2], 1u << shift) >> shift & 0xFFFFu;
    overflows = overflows || place >= kMostInBucket;
    bucket_and_place[k] = bucket | place << 16;
  }
  if (__syncthreads_or(overflows ? 1 : 0) != 0) return false;

  constexpr int kWords = kBuckets / 2 / kThreads;
  std::uint32_t own = 0, words[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = tables.buckets[thread * kWords + i];
    own += (words[i] & 0xFFFFu) + (words[i] >> 16);
  }
  std::uint32_t place = sum_before(own, tables.words);
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const std::uint32_t second = place + (words[i] & 0xFFFFu);
    tables.buckets[thread * kWords + i] = place | second << 16;
    place = second + (words[i] >> 16);
  }
  if (thread == 0) tables.buckets[kBuckets / 2] = static_cast<std::uint32_t>(count);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int item = k * kThreads + thread;
    if (item >= count) break;
    items[tables.bucket(static_cast<int>(bucket_and_place[k] & 0xFFFFu)) + (bucket_and_place[k] >> 16)] =
        static_cast<std::uint16_t>(item);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int item = k * kThreads + thread;
    if (item >= count) break;
    const int bucket = static_cast<int>(bucket_and_place[k] & 0xFFFFu);
    const std::uint32_t key = keys[item], begin = tables.bucket(bucket), end = tables.bucket(bucket + 1);
    std::uint32_t rank = begin;
    for (std::uint32_t i = begin; i < end; ++i) {
      const int other = items[i];
      const std::uint32_t other_key = keys[other];
      rank += other_key < key || (other_key == key && other < item) ? 1 : 0;
    }
    bucket_and_place[k] = rank;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const int item = k * kThreads + thread;
    if (item >= count) break;
    items[bucket_and_place[k]] = static_cast<std::uint16_t>(item);
  }
  __syncthreads();
  return true;
}

}  // namespace attest::sort_by_buckets
