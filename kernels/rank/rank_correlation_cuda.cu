// Ranks and Spearman's rho. Rows without an order are sorted and ranked in one kernel if they fit
// (ranks_in_block_cuda.cu). Rows with an order that fit are staged in shared memory by one block each, where values are
// gathered in rank order and ranks are scattered back to item order. Without staging, a study of 32 layers took 0.371 s
// instead of 0.271 s on an H200. Longer rows are divided among blocks; sums of integers do not depend on how.
#include <cub/block/block_scan.cuh>

#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/rank/rank_correlation_cuda.h"
#include "kernels/rank/rank_sums.cuh"
#include "kernels/rank/ranks_in_block_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/rank/tied_places.cuh"

namespace attest {
namespace {

constexpr int kRankThreads = 512;
constexpr int kPlaces = 8, kPlacesPerBlock = kRankThreads * kPlaces;  // of a long row: a thread has kPlaces of them

/// A row in descending order.
struct SortedRow {
  const float* values;
  RowOrder order;
  int row, count;

  __device__ float operator()(int place) const { return values[order(row, place)]; }
  __device__ TiedPlaces<SortedRow> tied() const { return {*this, count}; }
};

/// Calls visit(item, sum of tied places) for the places of the block in its row, all loads of a thread in flight at a
/// time.
template <class Visit>
__device__ void for_places_of_block(const SortedRow& sorted, Visit&& visit) {
  const int begin = static_cast<int>(blockIdx.y) * kPlacesPerBlock + static_cast<int>(threadIdx.x);
  int item[kPlaces];
  float value[kPlaces];
#pragma unroll
  for (int i = 0; i < kPlaces; ++i)
    item[i] = begin + i * kRankThreads < sorted.count ? sorted.order(sorted.row, begin + i * kRankThreads) : 0;
#pragma unroll
  for (int i = 0; i < kPlaces; ++i) value[i] = sorted.values[item[i]];
#pragma unroll
  for (int i = 0; i < kPlaces; ++i) {
    const int tied = sorted.tied().sum(begin + i * kRankThreads, value[i]);
    if (begin + i * kRankThreads < sorted.count) visit(item[i], tied);
  }
}

constexpr int kStagedThreads = 1024;

/// A row staged in shared memory: its values and, for each item, the sum of its first and last tied place (below
/// 2 * kMax, so it fits 16 bits).
struct Staged {
  static constexpr int kMax = 32768, kAtOnce = 8;
  float* values;
  std::uint16_t* places;

  static std::size_t bytes(int count) { return static_cast<std::size_t>((count + 1) / 2 * 2) * 6; }
  static bool fits(int count) { return count <= kMax && bytes(count) + kReducingBytes <= largest_shared_memory(); }

  __device__ Staged(void* shared, int max_items)
      : values(static_cast<float*>(shared)),
        places(reinterpret_cast<std::uint16_t*>(values + (max_items + 1) / 2 * 2)) {}

  __device__ void rank(const RowValues& in, const RowOrder& order, int row, int count) const {
#pragma unroll 8
    for (int item = threadIdx.x; item < count; item += kStagedThreads) values[item] = in.row(row)[item];
    __syncthreads();
    const SortedRow sorted{values, order, row, count};
    for (int begin = threadIdx.x; begin - static_cast<int>(threadIdx.x) < count; begin += kAtOnce * kStagedThreads) {
      int item[kAtOnce];  // all loads in flight at a time
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        item[i] = begin + i * kStagedThreads < count ? order(row, begin + i * kStagedThreads) : 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int place = begin + i * kStagedThreads, tied = sorted.tied().sum(place, values[item[i]]);
        if (place < count) places[item[i]] = static_cast<std::uint16_t>(tied);
      }
    }
    __syncthreads();
  }
  __device__ int centred(int item, int count) const { return places[item] + 2 - (count + 1); }
};

__global__ void __launch_bounds__(kStagedThreads, 1)
    staged_ranks_kernel(RowValues in, RowOrder order, DeviceMatrix<int> centred) {
  extern __shared__ __align__(16) float shared[];
  const int row = blockIdx.x, count = in.counts[row];
  const Staged staged(shared, in.max_count);
  staged.rank(in, order, row, count);
  for (int item = threadIdx.x; item < count; item += kStagedThreads)
    centred.row(row)[item] = staged.centred(item, count);
}

/// For estimates whose entries are single items (width 1).
__global__ void __launch_bounds__(kStagedThreads, 1)
    staged_spearman_kernel(RowValues in, RowOrder order, DeviceMatrix<const int> centred, RowCells rho) {
  extern __shared__ __align__(16) float shared[];
  __shared__ long long reduced[32];
  const int row = blockIdx.x, count = in.counts[row];
  const Staged staged(shared, in.max_count);
  staged.rank(in, order, row, count);
  RankSums sums;
#pragma unroll 8
  for (int item = threadIdx.x; item < count; item += kStagedThreads)
    sums.add(staged.centred(item, count), centred.row(row)[item]);
  sums.reduce(reduced);
  const float found = sums.rho();
  if (threadIdx.x == 0) rho.values[rho.cell[row]] = found;
}

__global__ void __launch_bounds__(kRankThreads) ranks_kernel(RowValues in, RowOrder order, DeviceMatrix<int> centred) {
  const int row = blockIdx.x, count = in.counts[row];
  if (static_cast<int>(blockIdx.y) * kPlacesPerBlock >= count) return;
  for_places_of_block(SortedRow{in.row(row), order, row, count},
                      [&](int item, int tied) { centred.row(row)[item] = tied + 2 - (count + 1); });
}

/// Adds the sums of long rows, whose entries are single items, to sums [rows].
__global__ void __launch_bounds__(kRankThreads)
    long_spearman_kernel(RowValues in, RowOrder order, DeviceMatrix<const int> centred, RankSums* sums) {
  __shared__ long long reduced[32];
  const int row = blockIdx.x, count = in.counts[row];
  if (static_cast<int>(blockIdx.y) * kPlacesPerBlock >= count) return;
  const int* ranks = centred.row(row);
  RankSums own;
  for_places_of_block(SortedRow{in.row(row), order, row, count},
                      [&](int item, int tied) { own.add(tied + 2 - (count + 1), ranks[item]); });
  own.reduce(reduced);
  if (threadIdx.x == 0) own.add_to(sums[row]);
}

__global__ void rho_kernel(const RankSums* sums, int rows, RowCells rho) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row < rows) rho.values[rho.cell[row]] = sums[row].rho();
}

__global__ void __launch_bounds__(kRankThreads)
    spearman_kernel(EntryEstimate estimate, DeviceMatrix<const int> centred, RowCells rho) {
  __shared__ long long reduced[32];
  __shared__ int place_of_partial;
  const int row = blockIdx.x, entries = estimate.entries.counts[row], width = estimate.width;
  const int items = width == 1 ? entries : entries == 0 ? 0 : estimate.items[row];
  const SortedRow sorted{estimate.entries.row(row), estimate.order, row, entries};
  const int missing = entries * width - items;  // items that the last entry lacks
  if (threadIdx.x == 0) place_of_partial = entries;
  __syncthreads();
  if (missing > 0)
    for (int place = threadIdx.x; place < entries; place += kRankThreads)
      if (estimate.order(row, place) == entries - 1) place_of_partial = place;
  __syncthreads();
  const auto items_before = [&](int place) { return place * width - (place_of_partial < place ? missing : 0); };

  const int* ranks = centred.row(row);
  RankSums sums;
  for (int place = threadIdx.x; place < entries; place += kRankThreads) {
    const float value = sorted(place);
    const int first = sorted.tied().first(place, value), last = sorted.tied().last(place, value),
              entry = estimate.order(row, place);
    const long long own = items_before(first) + items_before(last + 1) + 1 - (items + 1);
    const int end = min(items, (entry + 1) * width);
    for (int item = entry * width; item < end; ++item) sums.add(own, ranks[item]);
  }
  sums.reduce(reduced);
  const float found = sums.rho();
  if (threadIdx.x == 0) rho.values[rho.cell[row]] = found;
}

struct Below {
  const int* limit;
  __device__ bool operator()(int row, int item) const { return item < limit[row]; }
};
struct Flagged {
  DeviceMatrix<const std::uint8_t> flags;
  int width;
  __device__ bool operator()(int row, int item) const { return flags.row(row)[item / width] != 0; }
};

/// One block per row; a thread has kPlaces neighbours at a time.
template <class Keep>
__global__ void __launch_bounds__(kRankThreads)
    filter_kernel(RowOrder order, const int* counts, Keep keep, DeviceMatrix<std::uint32_t> out, int* kept) {
  using Scan = cub::BlockScan<int, kRankThreads>;
  __shared__ typename Scan::TempStorage temp;
  const int row = blockIdx.x, count = counts[row];
  std::uint32_t* to = out.row(row);
  for (int begin = 0; begin < count; begin += kPlacesPerBlock) {
    const int first = begin + static_cast<int>(threadIdx.x) * kPlaces;
    int items[kPlaces], keeps = 0;  // a bit for each
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) items[i] = first + i < count ? order(row, first + i) : 0;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      if (first + i < count && keep(row, items[i])) keeps |= 1 << i;
    int before = 0, total = 0;
    Scan(temp).ExclusiveSum(__popc(static_cast<unsigned>(keeps)), before, total);
    __syncthreads();
    std::uint32_t* own = to + before;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      if ((keeps >> i & 1) != 0) *own++ = static_cast<std::uint32_t>(items[i]);
    to += total;
  }
  if (kept != nullptr && threadIdx.x == 0) kept[row] = static_cast<int>(to - out.row(row));
}

template <class Keep>
RowOrder filtered(const RowOrder& order, const RowValues& values, const Keep& keep, int* kept, DeviceArena& arena,
                  cudaStream_t stream) {
  const DeviceMatrix<std::uint32_t> out{
      arena.take<std::uint32_t>(static_cast<std::size_t>(values.rows) * static_cast<std::size_t>(values.max_count)),
      values.max_count};
  if (values.rows > 0) {
    filter_kernel<<<values.rows, kRankThreads, 0, stream>>>(order, values.counts, keep, out, kept);
    ATTEST_CUDA_LAUNCHED(filter_kernel);
  }
  return {.entries = out};
}

/// Long rows are divided.
dim3 blocks_of(const RowValues& in) {
  return {static_cast<unsigned>(in.rows), static_cast<unsigned>((in.max_count - 1) / kPlacesPerBlock + 1)};
}

/// Whether rows of this many items are staged: they fit, and staging is worth its cost.
bool is_staged(int count) { return count > kRankThreads && Staged::fits(count); }

void spearman_in_order(const EntryEstimate& estimate, const DeviceMatrix<const int>& centred, const RowCells& rho,
                       DeviceArena& arena, cudaStream_t stream) {
  const RowValues& entries = estimate.entries;
  if (estimate.width == 1 && is_staged(entries.max_count)) {
    const std::size_t bytes = Staged::bytes(entries.max_count);
    allow_shared_memory(staged_spearman_kernel, bytes);
    staged_spearman_kernel<<<entries.rows, kStagedThreads, bytes, stream>>>(entries, estimate.order, centred, rho);
    ATTEST_CUDA_LAUNCHED(staged_spearman_kernel);
    return;
  }
  if (estimate.width == 1 && entries.max_count > kPlacesPerBlock) {
    const DeviceArena::Scope scope(arena);
    const auto rows = static_cast<std::size_t>(entries.rows);
    auto* sums = arena.take<RankSums>(rows);
    ATTEST_CUDA(cudaMemsetAsync(sums, 0, rows * sizeof(RankSums), stream));
    long_spearman_kernel<<<blocks_of(entries), kRankThreads, 0, stream>>>(entries, estimate.order, centred, sums);
    ATTEST_CUDA_LAUNCHED(long_spearman_kernel);
    rho_kernel<<<(entries.rows - 1) / kRankThreads + 1, kRankThreads, 0, stream>>>(sums, entries.rows, rho);
    ATTEST_CUDA_LAUNCHED(rho_kernel);
    return;
  }
  spearman_kernel<<<entries.rows, kRankThreads, 0, stream>>>(estimate, centred, rho);
  ATTEST_CUDA_LAUNCHED(spearman_kernel);
}

}  // namespace

void cuda_centred_ranks(const RowValues& values, const RowOrder& order, const DeviceMatrix<int>& centred,
                        cudaStream_t stream) {
  if (values.rows == 0) return;
  if (is_staged(values.max_count)) {
    const std::size_t bytes = Staged::bytes(values.max_count);
    allow_shared_memory(staged_ranks_kernel, bytes);
    staged_ranks_kernel<<<values.rows, kStagedThreads, bytes, stream>>>(values, order, centred);
    ATTEST_CUDA_LAUNCHED(staged_ranks_kernel);
    return;
  }
  ranks_kernel<<<blocks_of(values), kRankThreads, 0, stream>>>(values, order, centred);
  ATTEST_CUDA_LAUNCHED(ranks_kernel);
}

RowOrder cuda_sort_and_rank(const RowValues& values, const DeviceMatrix<int>& centred, DeviceArena& arena,
                            cudaStream_t stream) {
  if (values.rows > 0 && values.max_count > 0)
    if (const RowOrder order = cuda_rank_in_block(values, centred, arena, stream)) return order;
  const RowOrder order = cuda_sort_descending(values, arena, stream);
  cuda_centred_ranks(values, order, centred, stream);
  return order;
}

void cuda_spearman(const EntryEstimate& estimate, const DeviceMatrix<const int>& centred, const RowCells& rho,
                   DeviceArena& arena, cudaStream_t stream) {
  const RowValues& entries = estimate.entries;
  if (entries.rows == 0) return;
  if (estimate.order) return spearman_in_order(estimate, centred, rho, arena, stream);
  if (estimate.width == 1 && entries.max_count > 0 && cuda_spearman_in_block(entries, centred, rho, stream)) return;
  const DeviceArena::Scope scope(arena);
  EntryEstimate sorted = estimate;
  sorted.order = cuda_sort_descending(entries, arena, stream);
  spearman_in_order(sorted, centred, rho, arena, stream);
}

RowOrder cuda_order_below(const RowOrder& order, const RowValues& values, const int* limit, DeviceArena& arena,
                          cudaStream_t stream) {
  return filtered(order, values, Below{limit}, nullptr, arena, stream);
}

RowOrder cuda_order_of_flagged(const RowOrder& order, const RowValues& values,
                               const DeviceMatrix<const std::uint8_t>& flags, int width, int* kept, DeviceArena& arena,
                               cudaStream_t stream) {
  return filtered(order, values, Flagged{flags, width}, kept, arena, stream);
}

}  // namespace attest
