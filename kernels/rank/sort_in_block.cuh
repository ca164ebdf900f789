// Stable descending sort of one row by one block, entirely in shared memory.
//
// A monotone function of the value assigns items to small buckets, which lie one after the other. Each item then finds
// its place by comparison with the other items of its bucket. The function is scaled by the row's mean and mean
// absolute deviation and maps all finite values to a bucket. If a bucket overflows or the scale is not usable (infinite
// values, sums that overflow, or all values equal), a bitonic sort is used instead. Places and ranks go to the caller
// as they are found: the loop that finds them keeps nothing in registers and is therefore not unrolled, since the
// instructions of 32 copies took longer to fetch than to execute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/multiprocessor.h"
#include "kernels/device/row_views.h"
#include "kernels/rank/tied_places.cuh"

namespace attest {

/// An integer whose ascending order is the descending order of the values; -0 and +0 have the same image.
__device__ inline std::uint32_t descending_sort_key(float value) { return ~ordered_bits(value); }

template <int kThreads>
class BlockSort {
  static constexpr int kPerThread = 32;
  static constexpr int kBuckets = 16 * kThreads;  // two items per bucket on average in a row of kMaxItems
  static constexpr int kMaxInBucket = 64, kPlaceBits = 6, kPlacesPerWord = 32 / kPlaceBits;
  static_assert(kMaxInBucket == 1 << kPlaceBits);

  __host__ __device__ static constexpr int padded(int items) { return (items + 63) / 64 * 64; }

 public:
  static constexpr int kMaxItems = kThreads * kPerThread;

  /// Shared memory for rows of up to `items` items, in bytes.
  static std::size_t bytes(int items) {
    return static_cast<std::size_t>(padded(items)) * 6 + static_cast<std::size_t>(kBuckets / 2 + 1 + 32) * 4;
  }

  /// Splits a block's shared memory into the arrays below.
  __device__ BlockSort(void* shared, int max_items)
      : keys_(static_cast<std::uint32_t*>(shared)),
        values_(static_cast<float*>(shared)),
        items_(reinterpret_cast<std::uint16_t*>(keys_ + padded(max_items))),
        buckets_(reinterpret_cast<std::uint16_t*>(items_ + padded(max_items))),
        words_(pairs_of_buckets() + kBuckets / 2 + 1) {}

  /// Calls at_place(item, place) for every item, places in descending order of value; equal values in ascending order
  /// of item.
  template <class AtPlace>
  __device__ void sort(const RowValues& in, int row, AtPlace&& at_place) {
    run<false>(
        in, row, [](int) { return 0; }, [&](int item, int place, std::uint32_t, int) { at_place(item, place); });
  }

  /// As sort(), but calls at_place(item, place, places, read(item)), where `places` is the sum of the first and the
  /// last place, from 0, of the item's value: twice its rank less one. read() is called early, to load from device
  /// memory.
  template <class Read, class AtPlace>
  __device__ void rank(const RowValues& in, int row, Read&& read, AtPlace&& at_place) {
    run<true>(in, row, read, at_place);
  }

 private:
  /// Maps a key to its bucket. Monotone also after rounding, because every operation is monotone.
  struct Scale {
    float mean, per_deviation;

    /// Whether bucket() is monotone: not if a sum over the row has overflowed, or if all values are equal.
    __device__ bool is_usable() const { return mean * 0 == 0 && per_deviation * 0 == 0 && per_deviation > 0; }
    __device__ int bucket(float value) const {
      const float x = (mean - value) * per_deviation;
      const float t = 1 - __frcp_rn(fmaf(fabsf(x) / 2, fabsf(x), 1 + fabsf(x)));  // in [0, 1], near a normal row's
      return min(kBuckets - 1, static_cast<int>((1 + copysignf(t, x)) * (kBuckets / 2)));
    }
  };

  /// Two buckets a word: atomic additions are of words.
  __device__ std::uint32_t* pairs_of_buckets() const { return reinterpret_cast<std::uint32_t*>(buckets_); }

  /// The values of a thread's items in registers. Rows that are aligned to 16 bytes are read 16 bytes at a time.
  struct OwnValues {
    float value[kPerThread];
    int count;
    bool by_fours;

    __device__ OwnValues(const RowValues& in, int row) : count(in.counts[row]), by_fours(in.items.stride % 4 == 0) {
      const float* from = in.row(row);
#pragma unroll
      for (int k = 0; k < kPerThread; k += 4) {
        if (k * kThreads >= count) break;
        if (by_fours) {
          if (item(k) >= count) continue;  // a row's last four lie within its stride
          const float4 four = *reinterpret_cast<const float4*>(from + item(k));
          value[k] = four.x, value[k + 1] = four.y, value[k + 2] = four.z, value[k + 3] = four.w;
        } else {
#pragma unroll
          for (int i = k; i < k + 4; ++i) value[i] = item(i) < count ? from[item(i)] : 0;
        }
      }
    }
    __device__ int item(int k) const {
      const int thread = static_cast<int>(threadIdx.x);
      return by_fours ? (k / 4 * kThreads + thread) * 4 + k % 4 : k * kThreads + thread;
    }
    /// visit(k, item, value) for the thread's items.
    template <class Visit>
    __device__ void each(Visit&& visit) const {
#pragma unroll
      for (int k = 0; k < kPerThread; ++k) {
        if (k / 4 * 4 * kThreads >= count) break;
        if (item(k) < count) visit(k, item(k), value[k]);
      }
    }
  };

  template <bool kRanks, class Read, class AtPlace>
  __device__ void run(const RowValues& in, int row, Read&& read, AtPlace&& at_place) {
    const OwnValues own(in, row);
    const int count = own.count;
    const Scale scale = scale_of(own);
    if (fill_buckets(scale, own)) return order_buckets(scale, count, read, at_place);
    own.each([&](int, int item, float value) { keys_[item] = descending_sort_key(value); });
    bitonic_sort(count);
    const auto key_at = [this](int place) { return keys_[items_[place]]; };
    const TiedPlaces places{key_at, count};
    for (int first = 0; first < count; first += kThreads) {
      const int place = first + static_cast<int>(threadIdx.x);
      const int item = place < count ? items_[place] : 0;
      const auto sum = kRanks ? static_cast<std::uint32_t>(places.sum(place, keys_[item])) : 0;
      if (place < count) at_place(item, place, sum, read(item));
    }
  }

  /// Whether item a is sorted after item b.
  __device__ bool sorts_after(int a, int b) const { return keys_[a] > keys_[b] || (keys_[a] == keys_[b] && a > b); }

  /// Also clears buckets_.
  __device__ Scale scale_of(const OwnValues& own) {
    for (int i = static_cast<int>(threadIdx.x); i <= kBuckets / 2; i += kThreads) pairs_of_buckets()[i] = 0;
    auto* shared = reinterpret_cast<float*>(words_);
    float sum = 0, deviation = 0;
    own.each([&](int, int, float value) { sum += value; });
    const float mean = block_reduce(sum, shared, Plus{}) / static_cast<float>(own.count);
    own.each([&](int, int, float value) { deviation += fabsf(value - mean); });
    deviation = block_reduce(deviation, shared, Plus{}) / static_cast<float>(own.count);
    return {mean, 1 / deviation};
  }

  /// values_ and items_ = the values and items grouped by bucket, unordered within a bucket. buckets_[b] = place of the
  /// first item of bucket b; buckets_[kBuckets] = count. Returns false if a bucket overflows or the scale is not
  /// usable; the arrays are then undefined.
  __device__ bool fill_buckets(const Scale& scale, const OwnValues& own) {
    if (!scale.is_usable()) return false;
    std::uint32_t places[(kPerThread - 1) / kPlacesPerWord + 1] = {};  // of the thread's items within their buckets
    bool overflows = false;
    own.each([&](int k, int, float value) {
      const int bucket = scale.bucket(value);
      const int shift = bucket % 2 * 16;  // no count exceeds kMaxItems: none carries into its neighbour
      const std::uint32_t place = atomicAdd(&pairs_of_buckets()[bucket / 2], 1u << shift) >> shift & 0xFFFFu;
      overflows = overflows || place >= kMaxInBucket;
      places[k / kPlacesPerWord] |= place << k % kPlacesPerWord * kPlaceBits;
    });
    if (__syncthreads_or(overflows ? 1 : 0) != 0) return false;
    counts_to_places(own.count);
    own.each([&](int k, int item, float value) {
      const std::uint32_t at = buckets_[scale.bucket(value)] +
                               (places[k / kPlacesPerWord] >> k % kPlacesPerWord * kPlaceBits & (kMaxInBucket - 1));
      values_[at] = value;
      items_[at] = static_cast<std::uint16_t>(item);
    });
    __syncthreads();
    return true;
  }

  /// Exclusive prefix sum: buckets_[b] becomes the number of items in the buckets before b.
  __device__ void counts_to_places(int count) {
    constexpr int kOwn = kBuckets / kThreads / 2;  // pairs
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    std::uint32_t* own = pairs_of_buckets() + thread * kOwn;
    std::uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) sum += (own[i] & 0xFFFFu) + (own[i] >> 16);
    const std::uint32_t inclusive = warp_inclusive_sum(sum);
    if (lane == 31) words_[thread / 32] = inclusive;
    __syncthreads();
    std::uint32_t place = inclusive - sum;
    for (int w = 0; w < thread / 32; ++w) place += words_[w];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const std::uint32_t first = own[i] & 0xFFFFu, second = own[i] >> 16;
      own[i] = place | (place + first) << 16;
      place += first + second;
    }
    if (thread == 0) buckets_[kBuckets] = static_cast<std::uint16_t>(count);
    __syncthreads();
  }

  /// Finds the place of every item among those of its bucket, where all items of its value are. Neighbouring threads
  /// have neighbouring places, so they mostly share a bucket.
  template <class Read, class AtPlace>
  __device__ void order_buckets(const Scale& scale, int count, Read&& read, AtPlace&& at_place) {
#pragma unroll 1
    for (int from = static_cast<int>(threadIdx.x); from < count; from += kThreads) {
      const int item = items_[from];
      const auto early = read(item);
      const float value = values_[from];
      const int bucket = scale.bucket(value);
      const std::uint32_t begin = buckets_[bucket], end = buckets_[bucket + 1];
      std::uint32_t first = begin, equal = 0, equal_before = 0;
      for (std::uint32_t i = begin; i < end; ++i) {
        const float other = values_[i];
        first += other > value ? 1 : 0;
        equal += other == value ? 1 : 0;
      }
      if (equal > 1)
        for (std::uint32_t i = begin; i < end; ++i) equal_before += values_[i] == value && items_[i] < item ? 1 : 0;
      at_place(item, static_cast<int>(first + equal_before), 2 * first + equal - 1, early);
    }
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

  std::uint32_t* keys_;     // [items] images of the values by item, for the bitonic sort
  float* values_;           // [items] in the same memory: values by place
  std::uint16_t* items_;    // [items] by place
  std::uint16_t* buckets_;  // [kBuckets + 1]
  std::uint32_t* words_;    // [32]
};

/// Calls launch(std::integral_constant of the threads, bytes of shared memory) with the block size for rows of up to
/// `items` items. False if the device has no block that holds such rows.
template <class Launch>
bool with_block_sort(int items, Launch&& launch) {
  const auto launched = [&]<int kThreads>(std::integral_constant<int, kThreads> threads, int maximum) {
    const std::size_t bytes = BlockSort<kThreads>::bytes(items);
    if (items > maximum || bytes + kReducingBytes > largest_shared_memory()) return false;
    launch(threads, bytes);
    return true;
  };
  return launched(std::integral_constant<int, 256>(), BlockSort<256>::kMaxItems / 4) ||
         launched(std::integral_constant<int, 1024>(), BlockSort<1024>::kMaxItems);
}

}  // namespace attest
