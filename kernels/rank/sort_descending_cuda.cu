// Rows that fit are sorted by one block each in shared memory, longer ones all together by two radix sorts over device
// memory: by value, then (being stable) by row.
#include <algorithm>
#include <bit>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"
#include "kernels/rank/row_in_block.cuh"
#include "kernels/rank/sort_descending_cuda.h"

namespace attest {
namespace {

constexpr std::uint32_t kLast = 0xFFFFFFFFu;  // image of what lies beyond a row's count

template <int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    sort_short_kernel(RowValues in, std::uint32_t* order, std::int64_t order_stride) {
  using Sort = cub::BlockRadixSort<std::uint32_t, kThreads, kItems, std::uint16_t>;
  __shared__ typename Sort::TempStorage temp;
  const int row = blockIdx.x, count = in.counts[row];
  const float* values = in.values + row * in.stride;
  std::uint32_t keys[kItems];
  std::uint16_t items[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int item = static_cast<int>(threadIdx.x) * kItems + i;
    items[i] = static_cast<std::uint16_t>(item);
    keys[i] = item < count ? descending_image(values[item]) : kLast;
  }
  Sort(temp).SortBlockedToStriped(keys, items);
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int place = i * kThreads + static_cast<int>(threadIdx.x);
    if (place < count) order[row * order_stride + place] = items[i];
  }
}

template <int kThreads, int kItems>
void sort_short(const RowValues& in, std::uint32_t* order, cudaStream_t stream) {
  sort_short_kernel<kThreads, kItems><<<in.rows, kThreads, 0, stream>>>(in, order, in.max_count);
  ATTEST_CUDA_LAUNCHED(sort_short_kernel);
}

__global__ void __launch_bounds__(sort_in_block::kThreads, 1)
    sort_middling_kernel(RowValues in, std::uint32_t* order, std::int64_t order_stride) {
  extern __shared__ __align__(16) std::uint32_t shared[];
  const int row = blockIdx.x, count = in.counts[row];
  const sort_in_block::Storage storage(shared, in.max_count);
  row_in_block::sort(in, row, storage);
  for (int place = threadIdx.x; place < count; place += sort_in_block::kThreads)
    order[row * order_stride + place] = storage.items[place];
}

void sort_middling(const RowValues& in, std::uint32_t* order, cudaStream_t stream) {
  const std::size_t bytes = row_in_block::bytes(in.max_count);
  allow_shared_memory(sort_middling_kernel, bytes);
  sort_middling_kernel<<<in.rows, sort_in_block::kThreads, bytes, stream>>>(in, order, in.max_count);
  ATTEST_CUDA_LAUNCHED(sort_middling_kernel);
}

constexpr int kKeyThreads = 256;

/// Keys of a run of rows, and entries that hold the row above the item.
__global__ void make_keys_kernel(RowValues in, int first_row, int item_bits, std::uint32_t* keys,
                                 std::uint32_t* entries) {
  const int item = blockIdx.x * kKeyThreads + threadIdx.x, row = blockIdx.y;
  if (item >= in.max_count) return;
  const std::int64_t at = static_cast<std::int64_t>(row) * in.max_count + item;
  keys[at] =
      item < in.counts[first_row + row] ? descending_image(in.values[(first_row + row) * in.stride + item]) : kLast;
  entries[at] = static_cast<std::uint32_t>(row) << item_bits | static_cast<std::uint32_t>(item);
}

/// Sorts `rows` rows from first_row on into `order`; their entries, row numbers included, fit 32 bits.
void sort_long(const RowValues& in, int first_row, int rows, int item_bits, std::uint32_t* order, DeviceArena& arena,
               cudaStream_t stream) {
  const DeviceArena::Scope scope(arena);
  const int count = rows * in.max_count, row_bits = std::bit_width(static_cast<unsigned>(rows - 1));
  cub::DoubleBuffer keys(arena.take<std::uint32_t>(static_cast<std::size_t>(count)),
                         arena.take<std::uint32_t>(static_cast<std::size_t>(count)));
  cub::DoubleBuffer entries(order, arena.take<std::uint32_t>(static_cast<std::size_t>(count)));
  std::size_t by_value = 0, by_row = 0;
  ATTEST_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, by_value, keys, entries, count, 0, 32, stream));
  ATTEST_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, by_row, entries, count, item_bits,
                                             item_bits + std::max(1, row_bits), stream));
  std::size_t bytes = std::max(by_value, by_row);
  void* temp = arena.take_bytes(bytes);

  const dim3 grid((in.max_count + kKeyThreads - 1) / kKeyThreads, rows);
  make_keys_kernel<<<grid, kKeyThreads, 0, stream>>>(in, first_row, item_bits, keys.Current(), entries.Current());
  ATTEST_CUDA_LAUNCHED(make_keys_kernel);
  ATTEST_CUDA(cub::DeviceRadixSort::SortPairs(temp, bytes, keys, entries, count, 0, 32, stream));
  if (row_bits > 0)
    ATTEST_CUDA(cub::DeviceRadixSort::SortKeys(temp, bytes, entries, count, item_bits, item_bits + row_bits, stream));
  if (entries.Current() != order)
    ATTEST_CUDA(cudaMemcpyAsync(order, entries.Current(), static_cast<std::size_t>(count) * 4, cudaMemcpyDeviceToDevice,
                                stream));
}

}  // namespace

RowOrder sort_rows(const RowValues& in, DeviceArena& arena, cudaStream_t stream) {
  auto* order = arena.take<std::uint32_t>(static_cast<std::size_t>(in.rows) * static_cast<std::size_t>(in.max_count));
  RowOrder out{order, in.max_count, kLast};
  if (in.rows == 0 || in.max_count == 0) return out;
  if (in.max_count <= 512) return sort_short<128, 4>(in, order, stream), out;
  if (in.max_count <= kShortSort) return sort_short<256, 8>(in, order, stream), out;
  if (row_in_block::fits(in.max_count)) return sort_middling(in, order, stream), out;

  const int item_bits = std::bit_width(static_cast<unsigned>(in.max_count - 1));
  out.mask = (1u << item_bits) - 1;
  const int most =
      static_cast<int>(std::min<std::int64_t>(std::int64_t{1} << (32 - item_bits), 0x7FFFFFFF / in.max_count));
  for (int first = 0; first < in.rows; first += std::min(most, 65535))
    sort_long(in, first, std::min({most, 65535, in.rows - first}), item_bits,
              order + static_cast<std::int64_t>(first) * in.max_count, arena, stream);
  return out;
}

}  // namespace attest
