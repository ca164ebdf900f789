// Layers of tests/cases.h on the device as one chunk of rows, with a host copy for the plain reference code.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/device/cuda_check.h"
#include "kernels/device/device_arena.h"
#include "kernels/device/device_rows.h"
#include "kernels/device/row_views.h"
#include "kernels/device/stream.h"
#include "tests/cases.h"
#include "tests/kernels/plain.h"

namespace attest::test {

inline void skip_without_gpu() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override { skip_without_gpu(); }
};
template <class Parameter>
class OnGpuWith : public OnGpu, public testing::WithParamInterface<Parameter> {};

/// Rows of different lengths.
template <class T>
using Rows = std::vector<std::vector<T>>;

/// A stream, and device memory with all bits set until written: NaN, -1, or a level that no sweep uses.
struct Gpu {
  CudaStream stream;
  DeviceArena arena{std::size_t{1} << 30};

  Gpu() {
    constexpr std::size_t kMarked = std::size_t{128} << 20;
    arena.reserve(kMarked);
    const DeviceArena::Scope scope(arena);
    ATTEST_CUDA(cudaMemsetAsync(arena.take_bytes(kMarked), 0xFF, kMarked, stream));
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    T* to = arena.take<T>(values.size());
    ATTEST_CUDA(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
    stream.synchronize();
    return to;
  }
  template <class T>
  std::vector<std::remove_const_t<T>> download(T* from, std::size_t count) const {
    std::vector<std::remove_const_t<T>> values(count);
    ATTEST_CUDA(cudaMemcpyAsync(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream));
    stream.synchronize();
    return values;
  }

  /// Uploads rows `stride` elements apart. The padding after each row has all bits set.
  template <class T>
  RaggedRows<T> upload_rows(const Rows<T>& rows, std::int64_t stride) {
    std::vector<T> matrix(rows.size() * static_cast<std::size_t>(stride));
    std::memset(static_cast<void*>(matrix.data()), 0xFF, matrix.size() * sizeof(T));
    std::vector<int> counts;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::copy(rows[r].begin(), rows[r].end(), matrix.begin() + static_cast<std::ptrdiff_t>(r) * stride);
      counts.push_back(static_cast<int>(rows[r].size()));
    }
    return ragged(upload(matrix), stride, counts);
  }
  /// Rows for a kernel to fill.
  template <class T>
  RaggedRows<T> take_rows(const std::vector<int>& counts, std::int64_t stride) {
    return ragged(arena.take<T>(counts.size() * static_cast<std::size_t>(stride)), stride, counts);
  }
  template <class T>
  Rows<std::remove_const_t<T>> download_rows(const RaggedRows<T>& rows) const {
    const auto matrix =
        download(rows.items.data, static_cast<std::size_t>(rows.rows) * static_cast<std::size_t>(rows.items.stride));
    Rows<std::remove_const_t<T>> out;
    for (int count : download(rows.counts, static_cast<std::size_t>(rows.rows))) {
      const auto first = matrix.begin() + static_cast<std::ptrdiff_t>(out.size()) * rows.items.stride;
      out.emplace_back(first, first + count);
    }
    return out;
  }

 private:
  template <class T>
  RaggedRows<T> ragged(T* data, std::int64_t stride, const std::vector<int>& counts) {
    const int maximum = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    return {{data, stride}, upload(counts), static_cast<int>(counts.size()), maximum};
  }
};

/// A whole layer as one chunk. Origin i is heads[i]; row r is head r % group of query_of[r].
struct DeviceLayer {
  AttentionLayer layer;
  std::vector<HeadData> heads;
  std::vector<Query> query_of;  ///< [rows]
  DeviceRows rows;
  DeviceKeyValues kv;
  const void* q = nullptr;  ///< [N, Hq, D]
  QueryParts queries;

  // Host copies of the arrays in `rows` and `queries`.
  std::vector<RowBatch> batches;
  std::vector<KeyOrigin> origins;
  std::vector<int> visible, origin, query, cell;
  std::vector<float> sink;  ///< [rows], or empty
  std::vector<std::uint16_t> parts;
  std::vector<float> query_values;

  DeviceLayer(const Case& c, Gpu& gpu) : DeviceLayer(make_layer(c), gpu) {}
  DeviceLayer(AttentionLayer given, Gpu& gpu) : layer(std::move(given)) {
    layer.softmax_scale =
        static_cast<double>(static_cast<float>(layer.softmax_scale));  // the device has the scale in float32
    heads = heads_of(layer);
    list_rows();
    const int longest = *std::max_element(visible.begin(), visible.end());
    rows = {.num_rows = static_cast<int>(visible.size()),
            .num_origins = static_cast<int>(origins.size()),
            .group = layer.shape.group(),
            .layer_max_length = longest,
            .stride = (longest + 127) / 128 * 128,
            .origins = gpu.upload(origins),
            .visible = gpu.upload(visible),
            .origin = gpu.upload(origin),
            .query = gpu.upload(query),
            .cell = gpu.upload(cell),
            .sink = sink.empty() ? nullptr : gpu.upload(sink)};
    rows = first_rows(rows.num_rows, 64, gpu);
    batches = gpu.download(rows.batches, static_cast<std::size_t>(rows.num_batches));
    kv = {.type = layer.element_type,
          .keys = upload(layer.k, gpu),
          .values = upload(layer.v, gpu),
          .head_dim = layer.shape.head_dim,
          .value_dim = layer.shape.value_dim,
          .tokens = layer.num_tokens,
          .scale = static_cast<float>(layer.softmax_scale),
          .softcap = static_cast<float>(layer.logit_softcap)};
    q = upload(layer.q, gpu);
    split_queries();
    const int num_parts = kv.type == ElementType::bfloat16 ? 1 : kv.type == ElementType::float16 ? 2 : 3;
    queries = {gpu.upload(parts), gpu.upload(query_values), num_parts, rows.num_rows};
  }
  DeviceLayer(const DeviceLayer&) = delete;
  DeviceLayer& operator=(const DeviceLayer&) = delete;

  int padded_dim() const { return (layer.shape.head_dim + 63) / 64 * 64; }
  const HeadData& head_of(int row) const {
    return heads[static_cast<std::size_t>(origin[static_cast<std::size_t>(row)])];
  }
  const Query& row(int r) const { return query_of[static_cast<std::size_t>(r)]; }
  int head_of_group(int r) const { return r % rows.group; }
  /// Index of the row among the rows of its head.
  int row_of_head(int r) const { return row(r).n * rows.group + head_of_group(r); }
  int length(int r) const { return visible[static_cast<std::size_t>(r)]; }

  /// The first `count` rows in batches of at most `maximum` rows. `longest` stays that of the layer.
  DeviceRows first_rows(int count, int maximum, Gpu& gpu) const {
    DeviceRows part = rows;
    part.num_rows = count;
    part.max_length = part.max_batch_rows = 0;
    std::vector<RowBatch> pieces;
    for (int r = 0; r < count; ++r) {
      const int own = origin[static_cast<std::size_t>(r)];
      if (pieces.empty() || pieces.back().origin != own || pieces.back().num_rows == maximum)
        pieces.push_back({.first_row = r, .num_rows = 0, .length = 0, .origin = own, .params = own});
      RowBatch& batch = pieces.back();
      ++batch.num_rows;
      batch.length = std::max(batch.length, length(r));
      part.max_length = std::max(part.max_length, length(r));
      part.max_batch_rows = std::max(part.max_batch_rows, batch.num_rows);
      part.num_origins = own + 1;
    }
    part.batches = gpu.upload(pieces);
    part.num_batches = static_cast<int>(pieces.size());
    return part;
  }

 private:
  void list_rows() {
    const int group = layer.shape.group();
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const HeadData& data = heads[i];
      const auto first_position = layer.query_positions[static_cast<std::size_t>(data.first_query)];
      origins.push_back({.kv_head = data.kv_head,
                         .first_key = static_cast<int>(first_position + 1 - data.visible.front()),
                         .length = static_cast<int>(data.visible.back())});
      for (int n = 0; n < data.head.num_queries; ++n)
        for (int h = 0; h < group; ++h) {
          const int of_layer = static_cast<int>(data.first_query) + n;
          query_of.push_back({&data.head, n});
          visible.push_back(static_cast<int>(data.visible[static_cast<std::size_t>(n)]));
          origin.push_back(static_cast<int>(i));
          query.push_back(of_layer);
          cell.push_back(of_layer * layer.shape.num_query_heads + data.kv_head * group + h);
          if (!layer.sinks.empty()) sink.push_back(layer.sinks[static_cast<std::size_t>(data.kv_head * group + h)]);
        }
    }
  }
  void split_queries() {
    const auto padded = static_cast<std::size_t>(padded_dim()), elements = query_of.size() * padded;
    query_values.assign(elements, 0);
    parts.assign(elements * (kv.type == ElementType::bfloat16 ? 1 : kv.type == ElementType::float16 ? 2 : 3), 0);
    for (std::size_t r = 0; r < query_of.size(); ++r)
      for (int d = 0; d < kv.head_dim; ++d) {
        const std::size_t at = r * padded + static_cast<std::size_t>(d);
        double rest = query_of[r].q(head_of_group(static_cast<int>(r)), d);
        query_values[at] = static_cast<float>(rest);
        for (std::size_t part = 0; part * elements < parts.size(); ++part) {
          const double leading = to_type(ElementType::bfloat16, rest);
          parts[part * elements + at] =
              static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(leading)) >> 16);
          rest -= leading;
        }
      }
  }
  static const void* upload(const LayerBuffer& buffer, Gpu& gpu) {
    return gpu.upload(std::vector<std::byte>(buffer.data(), buffer.data() + buffer.size()));
  }
};

// For INSTANTIATE_TEST_SUITE_P.
inline std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name; }
inline std::string name_of_type(const testing::TestParamInfo<ElementType>& info) {
  return std::string(name_of(info.param));
}

}  // namespace attest::test
