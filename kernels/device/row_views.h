// Views of tables, matrices and rows in device memory: a pointer with its shape. Plain structs, passed as kernel
// arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace attest {

/// A row-major matrix whose rows are `stride` elements apart.
template <class T>
struct DeviceMatrix {
  T* data = nullptr;
  std::int64_t stride = 0;

  __host__ __device__ T* row(std::int64_t r) const { return data + r * stride; }
  __host__ __device__ explicit operator bool() const { return data != nullptr; }
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) __host__ __device__ operator DeviceMatrix<U>() const {
    return {data, stride};
  }
};

/// Tables with one value per (segment of tokens, channel): [tables, segments, padded].
template <class T>
struct ChannelTables {
  T* data = nullptr;
  int tables = 0, segments = 0, padded = 0;

  __host__ __device__ T* row(int table, int segment) const {
    return data + (static_cast<std::int64_t>(table) * segments + segment) * padded;
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(tables) * segments * padded; }
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) __host__ __device__ operator ChannelTables<U>() const {
    return {data, tables, segments, padded};
  }
};

/// Rows of different length: row r of the matrix is defined for its first counts[r] items.
template <class T>
struct RaggedRows {
  DeviceMatrix<T> items;
  const int* counts = nullptr;  ///< [rows]
  int rows = 0;
  int max_count = 0;  ///< no count is larger

  __host__ __device__ T* row(std::int64_t r) const { return items.row(r); }
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) __host__ __device__ operator RaggedRows<U>() const {
    return {items, counts, rows, max_count};
  }
};
using RowValues = RaggedRows<const float>;

/// An order of the items of every row: operator()(r, i) is the i-th item of row r, for i below the row's item count.
struct RowOrder {
  DeviceMatrix<const std::uint32_t> entries;
  std::uint32_t mask = 0xFFFFFFFFu;  ///< the bits of an entry that hold the item

  explicit operator bool() const { return static_cast<bool>(entries); }
  __host__ __device__ int operator()(int row, int i) const { return static_cast<int>(entries.row(row)[i] & mask); }
};

/// An order of some items of every row, with their number per row.
struct CountedOrder {
  RowOrder items;
  const int* counts = nullptr;  ///< [rows]

  explicit operator bool() const { return static_cast<bool>(items); }
};

/// One result per row: that of row r is stored in values[cell[r]].
struct RowCells {
  float* values = nullptr;
  const int* cell = nullptr;  ///< [rows]
};

/// Ascending settings of every query of a layer, or of every (query, KV head) of a chunk. of_row(r)[0 .. count) are
/// those of row r.
template <class T>
struct QuerySettings {
  const T* values = nullptr;   ///< [entries, count]
  int count = 0;               ///< S
  const int* query = nullptr;  ///< [rows] entry of the row: its query, or its (query, KV head)

  __host__ __device__ const T* of_row(int row) const { return values + static_cast<std::int64_t>(query[row]) * count; }
};

}  // namespace attest
