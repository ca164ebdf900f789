// A layer as input of selectors and metrics on the device: one chunk of rows, with exact scores computed plainly.
#pragma once

#include "kernels/selectors/cuda_chunk.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

struct DeviceChunk {
  Gpu gpu;
  DeviceLayer on;
  Uploads uploads;
  Rows<float> scores;    ///< [rows][L] in float32, as on the device
  Rows<double> precise;  ///< scores plus their float32 rest; without the rest if rows are longer than kShortRow
  CudaChunk chunk;

  explicit DeviceChunk(AttentionLayer layer) : on(std::move(layer), gpu) {
    Rows<float> low;
    std::vector<float> maxima;
    const bool is_short = on.rows.layer_max_length <= kShortRow;
    for (int r = 0; r < on.rows.num_rows; ++r) {
      const Row exact = on.row(r).exact_row(on.head_of_group(r));
      scores.emplace_back(exact.begin(), exact.end());
      low.emplace_back();
      precise.emplace_back();
      for (std::size_t j = 0; j < exact.size(); ++j) {
        const double high = static_cast<double>(scores.back()[j]);
        low.back().push_back(static_cast<float>(exact[j] - high));
        precise.back().push_back(is_short ? high + static_cast<double>(low.back()[j]) : high);
      }
      maxima.push_back(*std::max_element(scores.back().begin(), scores.back().end()));
    }
    chunk.rows = on.rows;
    chunk.kv = on.kv;
    chunk.queries = on.queries;
    chunk.transform = {on.layer.softmax_scale, on.layer.logit_softcap};
    chunk.num_keys = on.layer.shape.num_kv_heads * on.layer.num_tokens;
    chunk.exact = upload(scores);
    if (is_short) chunk.exact_low = upload(low);
    chunk.exact_max = gpu.upload(maxima);
    chunk.estimates = on.layer.estimates;
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

  /// Uploads one number per token of every row as a [rows, stride] matrix.
  const float* upload(const Rows<float>& rows) { return gpu.upload_rows(rows, on.rows.stride).items.data; }
  /// Number of cells of a [N, Hq] result.
  std::size_t num_cells() const {
    return static_cast<std::size_t>(on.layer.num_queries()) * static_cast<std::size_t>(on.layer.shape.num_query_heads);
  }
  /// Downloads a [N, Hq] array as one value per row.
  std::vector<float> download_cells(const float* cells) const {
    const std::vector<float> all = gpu.download(cells, num_cells());
    std::vector<float> by_row;
    for (int cell : on.cell) by_row.push_back(all[static_cast<std::size_t>(cell)]);
    return by_row;
  }
};

}  // namespace attest::test
