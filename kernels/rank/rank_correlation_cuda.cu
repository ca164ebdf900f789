// One block per row. Tied groups are found by binary search in the order, so rows without ties pay nothing for them.
// Rows that fit are staged in shared memory, where their values are looked up in rank order and their ranks put back in
// item order.
#include <cub/block/block_scan.cuh>

#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/rank/rho.cuh"
#include "kernels/rank/row_in_block.cuh"

namespace attest {
namespace {

constexpr int kThreads = 512;

/// A row in descending order.
struct SortedRow {
  const float* values;
  RowOrder order;
  int row, count;

  __device__ float operator()(int place) const { return values[order(row, place)]; }
  /// First place whose value is that of `place`.
  __device__ int first_tied(int place, float value) const {
    if (place == 0 || (*this)(place - 1) != value) return place;
    int low = 0, high = place;  // value(high) == value
    while (low < high) {
      const int middle = (low + high) / 2;
      if ((*this)(middle) == value)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  __device__ int last_tied(int place, float value) const {
    if (place + 1 == count || (*this)(place + 1) != value) return place;
    int low = place, high = count - 1;  // value(low) == value
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if ((*this)(middle) == value)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

constexpr int kStagedThreads = 1024;

/// Bytes of a staged row: its values, and for each item the first and last tied place added up, which is below 2 *
/// kMostStaged.
constexpr int kMostStaged = 32768;
std::size_t staged_bytes(int count) { return static_cast<std::size_t>((count + 1) / 2 * 2) * 6; }
bool fits_block(int count) { return count <= kMostStaged && staged_bytes(count) <= largest_shared_memory(); }

/// places[item] = first + last tied place of the item, for all items of the row.
__device__ void stage_ranks(const RowValues& in, const RowOrder& order, int row, int count, float* values,
                            std::uint16_t* places) {
  for (int item = threadIdx.x; item < count; item += kStagedThreads) values[item] = in.values[row * in.stride + item];
  __syncthreads();
  const SortedRow sorted{values, order, row, count};
  for (int begin = 0; begin < count; begin += kStagedThreads) {
    const int place = begin + static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
    const int item = place < count ? order(row, place) : 0;
    const float value = values[item];
    float before = __shfl_up_sync(0xFFFFFFFFu, value, 1), after = __shfl_down_sync(0xFFFFFFFFu, value, 1);
    if (place >= count) continue;
    if (lane == 0 && place > 0) before = sorted(place - 1);
    if (lane == 31 && place + 1 < count) after = sorted(place + 1);
    const int first = place > 0 && before == value ? sorted.first_tied(place, value) : place;
    const int last = place + 1 < count && after == value ? sorted.last_tied(place, value) : place;
    places[item] = static_cast<std::uint16_t>(first + last);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kStagedThreads, 1) staged_ranks_kernel(RowValues in, RowOrder order, int* centred) {
  extern __shared__ __align__(16) float values[];
  const int row = blockIdx.x, count = in.counts[row];
  auto* places = reinterpret_cast<std::uint16_t*>(values + (in.max_count + 1) / 2 * 2);
  stage_ranks(in, order, row, count, values, places);
  for (int item = threadIdx.x; item < count; item += kStagedThreads)
    centred[row * in.stride + item] = places[item] + 2 - (count + 1);
}

/// rho between ranks that stand as first and last tied place added up, and centred ones.
__device__ void correlate_places(const std::uint16_t* places, int count, const int* centred, long long* shared,
                                 float* rho) {
  RankSums sums;
  for (int item = threadIdx.x; item < count; item += kStagedThreads)
    sums.add(places[item] + 2 - (count + 1), centred[item]);
  const float found = sums.rho(shared);
  if (threadIdx.x == 0) *rho = found;
}

static_assert(kStagedThreads == row_in_block::kThreads);

__global__ void __launch_bounds__(kStagedThreads, 1)
    sort_and_rank_kernel(RowValues in, std::uint32_t* order, std::int64_t order_stride, int* centred) {
  extern __shared__ __align__(16) std::uint32_t words[];
  const int row = blockIdx.x, count = in.counts[row];
  const row_in_block::Storage storage(words, in.max_count);
  row_in_block::sort(in, row, storage);
  for (int place = threadIdx.x; place < count; place += kStagedThreads)
    order[row * order_stride + place] = storage.items[place];
  row_in_block::rank(storage, count);
  for (int item = threadIdx.x; item < count; item += kStagedThreads)
    centred[row * in.stride + item] = storage.items[item] + 2 - (count + 1);
}

__global__ void __launch_bounds__(kStagedThreads, 1)
    sort_and_correlate_kernel(RowValues in, const int* centred, std::int64_t stride, float* rho, const int* cell) {
  extern __shared__ __align__(16) std::uint32_t words[];
  __shared__ long long shared[32];
  const int row = blockIdx.x, count = in.counts[row];
  const row_in_block::Storage storage(words, in.max_count);
  row_in_block::sort(in, row, storage);
  row_in_block::rank(storage, count);
  correlate_places(storage.items, count, centred + row * stride, shared, rho + cell[row]);
}

/// Of estimates whose entries are single items.
__global__ void __launch_bounds__(kStagedThreads, 1)
    staged_spearman_kernel(RowValues in, RowOrder order, const int* centred, std::int64_t stride, float* rho,
                           const int* cell) {
  extern __shared__ __align__(16) float values[];
  __shared__ long long shared[32];
  const int row = blockIdx.x, count = in.counts[row];
  auto* places = reinterpret_cast<std::uint16_t*>(values + (in.max_count + 1) / 2 * 2);
  stage_ranks(in, order, row, count, values, places);
  correlate_places(places, count, centred + row * stride, shared, rho + cell[row]);
}

__global__ void __launch_bounds__(kThreads) centred_ranks_kernel(RowValues in, RowOrder order, int* centred) {
  const int row = blockIdx.x, count = in.counts[row];
  const SortedRow sorted{in.values + row * in.stride, order, row, count};
  for (int place = threadIdx.x; place < count; place += kThreads) {
    const float value = sorted(place);
    const int first = sorted.first_tied(place, value), last = sorted.last_tied(place, value);
    centred[row * in.stride + order(row, place)] = first + last + 2 - (count + 1);
  }
}

__global__ void __launch_bounds__(kThreads)
    spearman_kernel(EntryEstimate estimate, const int* centred, std::int64_t stride, float* rho, const int* cell) {
  __shared__ long long shared[32];
  __shared__ int place_of_partial;
  const int row = blockIdx.x, entries = estimate.entries.counts[row], width = estimate.width;
  const int items = width == 1 ? entries : entries == 0 ? 0 : estimate.items[row];
  const SortedRow sorted{estimate.entries.values + row * estimate.entries.stride, estimate.order, row, entries};
  const int missing = entries * width - items;  // of the last entry
  if (threadIdx.x == 0) place_of_partial = entries;
  __syncthreads();
  if (missing > 0)
    for (int place = threadIdx.x; place < entries; place += kThreads)
      if (estimate.order(row, place) == entries - 1) place_of_partial = place;
  __syncthreads();
  const auto items_before = [&](int place) { return place * width - (place_of_partial < place ? missing : 0); };

  const int* ranks = centred + row * stride;
  RankSums sums;
  for (int place = threadIdx.x; place < entries; place += kThreads) {
    const float value = sorted(place);
    const int first = sorted.first_tied(place, value), last = sorted.last_tied(place, value),
              entry = estimate.order(row, place);
    const long long own = items_before(first) + items_before(last + 1) + 1 - (items + 1);
    const int end = min(items, (entry + 1) * width);
    for (int item = entry * width; item < end; ++item) sums.add(own, ranks[item]);
  }
  const float found = sums.rho(shared);
  if (threadIdx.x == 0) rho[cell[row]] = found;
}

struct Below {
  const int* limit;
  __device__ bool operator()(int row, int item) const { return item < limit[row]; }
};
struct Flagged {
  const std::uint8_t* flags;
  std::int64_t stride;
  int width;
  __device__ bool operator()(int row, int item) const { return flags[row * stride + item / width] != 0; }
};

template <class Keep>
__global__ void __launch_bounds__(kThreads) filter_kernel(RowOrder order, const int* counts, Keep keep,
                                                          std::uint32_t* out, std::int64_t out_stride, int* kept) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage temp;
  const int row = blockIdx.x, count = counts[row];
  int written = 0;
  for (int begin = 0; begin < count; begin += kThreads) {
    const int place = begin + static_cast<int>(threadIdx.x);
    const int item = place < count ? order(row, place) : 0;
    const int keeps = place < count && keep(row, item) ? 1 : 0;
    int before = 0, total = 0;
    Scan(temp).ExclusiveSum(keeps, before, total);
    __syncthreads();
    if (keeps != 0) out[row * out_stride + written + before] = static_cast<std::uint32_t>(item);
    written += total;
  }
  if (kept != nullptr && threadIdx.x == 0) kept[row] = written;
}

template <class Keep>
RowOrder filtered(const RowOrder& order, const RowValues& values, const Keep& keep, int* kept, DeviceArena& arena,
                  cudaStream_t stream) {
  auto* out =
      arena.take<std::uint32_t>(static_cast<std::size_t>(values.rows) * static_cast<std::size_t>(values.max_count));
  if (values.rows > 0) {
    filter_kernel<<<values.rows, kThreads, 0, stream>>>(order, values.counts, keep, out, values.max_count, kept);
    ATTEST_CUDA_LAUNCHED(filter_kernel);
  }
  return {out, values.max_count, 0xFFFFFFFFu};
}

}  // namespace

void centred_ranks(const RowValues& values, const RowOrder& order, int* centred, cudaStream_t stream) {
  if (values.rows == 0) return;
  if (values.max_count > kThreads && fits_block(values.max_count)) {
    const std::size_t bytes = staged_bytes(values.max_count);
    allow_shared_memory(staged_ranks_kernel, bytes);
    staged_ranks_kernel<<<values.rows, kStagedThreads, bytes, stream>>>(values, order, centred);
    ATTEST_CUDA_LAUNCHED(staged_ranks_kernel);
    return;
  }
  centred_ranks_kernel<<<values.rows, kThreads, 0, stream>>>(values, order, centred);
  ATTEST_CUDA_LAUNCHED(centred_ranks_kernel);
}

void spearman_rows(const EntryEstimate& estimate, const int* centred, std::int64_t stride, float* rho, const int* cell,
                   cudaStream_t stream) {
  if (estimate.entries.rows == 0) return;
  const int longest = estimate.entries.max_count;
  if (estimate.width == 1 && longest > kThreads && fits_block(longest)) {
    const std::size_t bytes = staged_bytes(longest);
    allow_shared_memory(staged_spearman_kernel, bytes);
    staged_spearman_kernel<<<estimate.entries.rows, kStagedThreads, bytes, stream>>>(estimate.entries, estimate.order,
                                                                                     centred, stride, rho, cell);
    ATTEST_CUDA_LAUNCHED(staged_spearman_kernel);
    return;
  }
  spearman_kernel<<<estimate.entries.rows, kThreads, 0, stream>>>(estimate, centred, stride, rho, cell);
  ATTEST_CUDA_LAUNCHED(spearman_kernel);
}

namespace {

/// Whether sorting and ranking in one block pays: shorter rows have a faster sort.
bool ranks_in_block(const RowValues& values) {
  return values.max_count > kShortSort && row_in_block::fits(values.max_count);
}

}  // namespace

RowOrder rank_rows(const RowValues& values, int* centred, DeviceArena& arena, cudaStream_t stream) {
  if (values.rows == 0 || !ranks_in_block(values)) {
    const RowOrder order = sort_rows(values, arena, stream);
    centred_ranks(values, order, centred, stream);
    return order;
  }
  auto* order =
      arena.take<std::uint32_t>(static_cast<std::size_t>(values.rows) * static_cast<std::size_t>(values.max_count));
  const std::size_t bytes = row_in_block::bytes(values.max_count);
  allow_shared_memory(sort_and_rank_kernel, bytes);
  sort_and_rank_kernel<<<values.rows, kStagedThreads, bytes, stream>>>(values, order, values.max_count, centred);
  ATTEST_CUDA_LAUNCHED(sort_and_rank_kernel);
  return {order, values.max_count, 0xFFFFFFFFu};
}

void spearman_of_values(const RowValues& values, const int* centred, std::int64_t stride, float* rho, const int* cell,
                        DeviceArena& arena, cudaStream_t stream) {
  if (values.rows == 0 || !ranks_in_block(values)) {
    spearman_rows({.entries = values, .order = sort_rows(values, arena, stream)}, centred, stride, rho, cell, stream);
    return;
  }
  const std::size_t bytes = row_in_block::bytes(values.max_count);
  allow_shared_memory(sort_and_correlate_kernel, bytes);
  sort_and_correlate_kernel<<<values.rows, kStagedThreads, bytes, stream>>>(values, centred, stride, rho, cell);
  ATTEST_CUDA_LAUNCHED(sort_and_correlate_kernel);
}

RowOrder order_below(const RowOrder& order, const RowValues& values, const int* limit, DeviceArena& arena,
                     cudaStream_t stream) {
  return filtered(order, values, Below{limit}, nullptr, arena, stream);
}

RowOrder order_of_flagged(const RowOrder& order, const RowValues& values, const std::uint8_t* flags,
                          std::int64_t flag_stride, int width, int* kept, DeviceArena& arena, cudaStream_t stream) {
  return filtered(order, values, Flagged{flags, flag_stride, width}, kept, arena, stream);
}

}  // namespace attest
