// One selector's results for a chunk on the device: random levels, settings permuted differently for every query, and
// cells for the metrics.
#pragma once

#include <string>
#include <vector>

#include "analysis/metrics/rows_cuda.h"
#include "tests/kernels/attention/device_sweep.h"
#include "tests/kernels/selectors/device_chunk.h"

namespace attest::test {

struct DeviceSelection {
  DeviceChunk& on;
  int settings;
  DeviceSweep sweep;          ///< only its levels are used
  std::vector<int> place_of;  ///< [queries, settings]: index of a setting in the results
  StageClock clock;
  CudaExactRows exact;
  CudaSelection selection;
  CudaSelectorRows rows;

  /// `leveled` false: every token at level 0.
  DeviceSelection(DeviceChunk& chunk, int num_settings, bool leveled) : on(chunk), settings(num_settings) {
    sweep = random_sweep(on.on, settings, leveled ? Runs::mixture : Runs::all, 1, on.gpu);
    for (int n = 0; n < static_cast<int>(on.chunk.num_queries); ++n)
      for (int i = 0; i < settings; ++i) place_of.push_back((i + n) % settings);
    exact.chunk = &on.chunk;
    exact.clock = &clock;
    selection.levels = sweep.view.levels.data;
    rows.exact = &exact;
    rows.selection = &selection;
    rows.offsets = {on.gpu.upload(place_of), settings, settings};
  }
  DeviceSelection(const DeviceSelection&) = delete;

  float* take_cells() { return on.gpu.arena.take<float>(on.num_cells() * static_cast<std::size_t>(settings)); }
  /// Downloads a [N, Hq, S] array as [rows, settings], settings ascending.
  std::vector<float> download_settings(const float* cells) const {
    const auto count = static_cast<std::size_t>(settings);
    const std::vector<float> all = on.gpu.download(cells, on.num_cells() * count);
    std::vector<float> by_row;
    for (std::size_t r = 0; r < on.scores.size(); ++r)
      for (std::size_t i = 0; i < count; ++i) {
        const int place = place_of[static_cast<std::size_t>(on.on.query[r]) * count + i];
        by_row.push_back(all[static_cast<std::size_t>(on.on.cell[r]) * count + static_cast<std::size_t>(place)]);
      }
    return by_row;
  }
  /// Tokens of a row that a setting keeps.
  Kept kept(std::size_t r, int setting) const {
    Kept out;
    for (int j = 0; j < static_cast<int>(on.scores[r].size()); ++j)
      out.push_back(sweep.level(static_cast<int>(r), j) <= setting ? 1 : 0);
    return out;
  }
};

}  // namespace attest::test
