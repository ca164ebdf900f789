// Stable descending sort of one row by one block, entirely in shared memory.
//
// A monotone function of the value assigns items to small buckets. Each item then finds its place by comparison with
// the other items of its bucket. The function is scaled by the row's mean and mean absolute deviation and maps all
// finite values to a bucket. If a bucket overflows or the scale is not usable (infinite values, sums that overflow, or
// all values equal), a bitonic sort is used instead.
#pragma once

#include <cstdint>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/row_views.h"

namespace attest {

/// An integer whose ascending order is the descending order of the values; -0 and +0 have the same image.
__device__ inline std::uint32_t descending_sort_key(float value) { return ~sortable_bits(value); }

template <int kThreads>
class BlockSort {
  static constexpr int kPerThread = 32;
  static constexpr int kBuckets = 8 * kThreads;  // four items per bucket on average in a row of kMaxItems
  static constexpr int kMaxInBucket = 64;

  __host__ __device__ static constexpr int padded(int items) { return (items + 63) / 64 * 64; }

 public:
  static constexpr int kMaxItems = kThreads * kPerThread;

  /// Shared memory for rows of up to `items` items, in bytes.
  static std::size_t bytes(int items) {
    return static_cast<std::size_t>(padded(items)) * 6 + static_cast<std::size_t>(kBuckets + 1 + 32) * 4;
  }

  /// Splits a block's shared memory into the arrays below.
  __device__ BlockSort(void* shared, int most_items)
      : keys_(static_cast<std::uint32_t*>(shared)),
        items_(reinterpret_cast<std::uint16_t*>(keys_ + padded(most_items))),
        buckets_(reinterpret_cast<std::uint32_t*>(items_ + padded(most_items))),
        words_(buckets_ + kBuckets + 1) {}

  /// items()[0 .. count) = the row's items in descending order of value; equal values in ascending order of item.
  __device__ void sort(const RowValues& in, int row) {
    const int count = in.counts[row];
    const Scale scale = load_keys(in, row, count);
    if (!fill_buckets(scale, count)) {
      bitonic_sort(count);
      return;
    }
    order_buckets(scale, count);
  }

  __device__ const std::uint16_t* items() const { return items_; }

 private:
  /// Maps a key to its bucket. Monotone also after rounding, because every operation is monotone.
  struct Scale {
    float mean, per_deviation;

    /// Whether bucket() is monotone: not if a sum over the row has overflowed, or if all values are equal.
    __device__ bool is_usable() const { return mean * 0 == 0 && per_deviation * 0 == 0 && per_deviation > 0; }
    __device__ int bucket(std::uint32_t key) const {
      const float x = (mean - from_ordered_image(~key)) * per_deviation;
      const float t = 1 - __frcp_rn(1 + fabsf(x));  // |x| / (1 + |x|), in [0, 1]
      return min(kBuckets - 1, static_cast<int>((1 + copysignf(t, x)) * (kBuckets / 2)));
    }
  };

  /// Whether item a is sorted after item b.
  __device__ bool sorts_after(int a, int b) const { return keys_[a] > keys_[b] || (keys_[a] == keys_[b] && a > b); }

  /// keys_[item] = image of the item's value. Values are read 16 bytes at a time if rows are aligned to 16 bytes. Also
  /// clears buckets_.
  __device__ Scale load_keys(const RowValues& in, int row, int count) {
    const int thread = static_cast<int>(threadIdx.x), aligned = in.items.stride % 4 == 0 ? count / 4 * 4 : 0;
    const float* values = in.row(row);
    float sum = 0;
    const auto image = [&](float value) {
      sum += value;
      return descending_sort_key(value);
    };
#pragma unroll 4
    for (int item = thread * 4; item < aligned; item += kThreads * 4) {
      const float4 four = *reinterpret_cast<const float4*>(values + item);
      *reinterpret_cast<uint4*>(keys_ + item) = {image(four.x), image(four.y), image(four.z), image(four.w)};
    }
    for (int item = aligned + thread; item < count; item += kThreads) keys_[item] = image(values[item]);
    for (int i = thread; i <= kBuckets; i += kThreads) buckets_[i] = 0;
    auto* shared = reinterpret_cast<float*>(words_);
    const float mean = block_reduce(sum, shared, Plus{}) / static_cast<float>(count);
    float deviation = 0;
    for (int item = thread; item < count; item += kThreads) deviation += fabsf(from_ordered_image(~keys_[item]) - mean);
    deviation = block_reduce(deviation, shared, Plus{}) / static_cast<float>(count);
    return {mean, 1 / deviation};
  }

  /// items_ = the items grouped by bucket, unordered within a bucket. buckets_[b] = place of the first item of
  /// bucket b; buckets_[kBuckets] = count. Returns false if a bucket overflows or the scale is not usable; both arrays
  /// are then undefined.
  __device__ bool fill_buckets(const Scale& scale, int count) {
    const int thread = static_cast<int>(threadIdx.x);
    if (!scale.is_usable()) return false;
    std::uint32_t bucket_and_place[kPerThread];  // lower 16 bits: bucket; upper 16 bits: place within the bucket
    bool overflows = false;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int item = k * kThreads + thread;
      if (item >= count) break;
      const int bucket = scale.bucket(keys_[item]);
      const std::uint32_t place = atomicAdd(&buckets_[bucket], 1u);
      overflows = overflows || place >= kMaxInBucket;
      bucket_and_place[k] = static_cast<std::uint32_t>(bucket) | place << 16;
    }
    if (__syncthreads_or(overflows ? 1 : 0) != 0) return false;
    counts_to_places(count);
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int item = k * kThreads + thread;
      if (item >= count) break;
      items_[buckets_[bucket_and_place[k] & 0xFFFFu] + (bucket_and_place[k] >> 16)] = static_cast<std::uint16_t>(item);
    }
    __syncthreads();
    return true;
  }

  /// Exclusive prefix sum: buckets_[b] becomes the number of items in the buckets before b.
  __device__ void counts_to_places(int count) {
    constexpr int kOwn = kBuckets / kThreads;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    std::uint32_t* own = buckets_ + thread * kOwn;
    std::uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sum += own[i];
    std::uint32_t inclusive = sum;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const std::uint32_t below = __shfl_up_sync(0xFFFFFFFFu, inclusive, offset);
      if (lane >= offset) inclusive += below;
    }
    if (lane == 31) words_[thread / 32] = inclusive;
    __syncthreads();
    std::uint32_t place = inclusive - sum;
    for (int w = 0; w < thread / 32; ++w) place += words_[w];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const std::uint32_t here = own[i];
      own[i] = place;
      place += here;
    }
    if (thread == 0) buckets_[kBuckets] = static_cast<std::uint32_t>(count);
    __syncthreads();
  }

  /// Sorts the items of every bucket. Neighbouring threads have neighbouring places, so they mostly share a bucket.
  __device__ void order_buckets(const Scale& scale, int count) {
    std::uint32_t item_and_place[kPerThread];
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int from = k * kThreads + static_cast<int>(threadIdx.x);
      if (from >= count) break;
      const std::uint32_t item = items_[from], key = keys_[item];
      const int bucket = scale.bucket(key);
      const std::uint32_t begin = buckets_[bucket], end = buckets_[bucket + 1];
      std::uint32_t place = begin;
      for (std::uint32_t i = begin; i < end; ++i) {
        const std::uint32_t other = items_[i], other_key = keys_[other];
        place += other_key < key || (other_key == key && other < item) ? 1 : 0;
      }
      item_and_place[k] = item | place << 16;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      if (k * kThreads + static_cast<int>(threadIdx.x) >= count) break;
      items_[item_and_place[k] >> 16] = static_cast<std::uint16_t>(item_and_place[k] & 0xFFFFu);
    }
    __syncthreads();
  }

  /// Bitonic sort in the variant whose exchanges all have the same direction, so `count` need not be a power of two.
  __device__ void bitonic_sort(int count) {
    for (int item = threadIdx.x; item < count; item += kThreads) items_[item] = static_cast<std::uint16_t>(item);
    __syncthreads();
    for (int run = 2; run / 2 < count; run *= 2)
      for (int mask = run - 1; mask > 0; mask = mask == run - 1 ? run / 4 : mask / 2) {
        for (int i = threadIdx.x; i < count; i += kThreads) {
          const int j = i ^ mask;
          if (j < i || j >= count || !sorts_after(items_[i], items_[j])) continue;
          const std::uint16_t first = items_[i];
          items_[i] = items_[j];
          items_[j] = first;
        }
        __syncthreads();
      }
  }

  std::uint32_t* keys_;     // [items]
  std::uint16_t* items_;    // [items]
  std::uint32_t* buckets_;  // [kBuckets + 1]
  std::uint32_t* words_;    // [32]
};

}  // namespace attest
