// A layer as selectors and metrics on the device are given it: one chunk of rows with exact scores found plainly.
#pragma once

#include "kernels/selectors/cuda_chunk.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

struct DeviceChunk {
  Gpu gpu;
  DeviceLayer on;
  Uploads uploads;
  Rows<double> exact;  ///< [rows][L]
  CudaChunk chunk;

  explicit DeviceChunk(AttentionLayer layer) : on(std::move(layer), gpu) {
    Rows<float> high, low;
    std::vector<float> maxima;
    for (int r = 0; r < on.rows.num_rows; ++r) {
      exact.push_back(on.row(r).exact_row(on.head_of_group(r)));
      high.emplace_back(exact.back().begin(), exact.back().end());
      low.emplace_back();
      for (std::size_t j = 0; j < exact.back().size(); ++j)
        low.back().push_back(static_cast<float>(exact.back()[j] - static_cast<double>(high.back()[j])));
      maxima.push_back(*std::max_element(high.back().begin(), high.back().end()));
    }
    chunk.rows = on.rows;
    chunk.kv = on.kv;
    chunk.queries = on.queries;
    chunk.transform = {on.layer.softmax_scale, on.layer.logit_softcap};
    chunk.num_keys = on.layer.shape.num_kv_heads * on.layer.num_tokens;
    chunk.exact = gpu.upload_rows(high, on.rows.stride).items.data;
    if (on.rows.longest <= kShortRow) chunk.exact_low = gpu.upload_rows(low, on.rows.stride).items.data;
    chunk.exact_max = gpu.upload(maxima);
    chunk.num_queries = on.layer.num_queries();
    chunk.layer = on.layer.layer;
    chunk.batches = on.batches;
    chunk.origins = on.origins;
    chunk.visible = on.visible;
    chunk.query = on.query;
    chunk.arena = &gpu.arena;
    chunk.uploads = &uploads;
    chunk.stream = gpu.stream;
  }
  explicit DeviceChunk(const Case& c) : DeviceChunk(make_layer(c)) {}

  /// Numbers of every row as a [rows, stride] matrix.
  const float* upload_tokens(const Rows<double>& rows) {
    Rows<float> floats;
    for (const std::vector<double>& row : rows) floats.emplace_back(row.begin(), row.end());
    return gpu.upload_rows(floats, on.rows.stride).items.data;
  }
};

}  // namespace attest::test
