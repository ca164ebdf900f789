// Tables, matrices and rows of device memory: a pointer with its shape, so that both travel together. Plain structs:
// kernel arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace attest {

/// A row-major matrix whose rows stand `stride` elements apart.
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

/// One value per channel of every segment of tokens, in several tables: [tables, segments, padded].
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

/// Items of every row in some order; item(r, i) is defined for as many i as the row has items.
struct RowOrder {
  DeviceMatrix<const std::uint32_t> entries;
  std::uint32_t mask = 0xFFFFFFFFu;  ///< the bits of an entry that hold the item

  explicit operator bool() const { return static_cast<bool>(entries); }
#ifdef __CUDACC__
  __device__ int operator()(int row, int i) const { return static_cast<int>(entries.row(row)[i] & mask); }
#endif
};

/// An order of some items of every row, and how many they are.
struct CountedOrder {
  RowOrder items;
  const int* counts = nullptr;  ///< [rows]

  explicit operator bool() const { return static_cast<bool>(items); }
};

/// One result per row, each to a cell of its own: values[cell[r]].
struct RowCells {
  float* values = nullptr;
  const int* cell = nullptr;  ///< [rows]
};

/// Settings of every query of a layer, ascending: those of the query that row r belongs to are of_row(r)[0 .. count).
template <class T>
struct QuerySettings {
  const T* values = nullptr;   ///< [queries, count]
  int count = 0;               ///< S
  const int* query = nullptr;  ///< [rows]

  __host__ __device__ const T* of_row(int row) const { return values + static_cast<std::int64_t>(query[row]) * count; }
};

}  // namespace attest
