// Options of skip_softmax and values derived from them, shared by the CPU and CUDA code. Method and sources:
// skip_softmax.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"

namespace attest {

class SkipSoftmaxOptions {
 protected:
  explicit SkipSoftmaxOptions(OptionReader& reader)
      : by_factor_(reader.choice("unit", {"delta", "factor"}, {"the threshold is delta, or ln(L / factor)"}) ==
                   "factor"),
        tile_(reader.integer("tile", 128, 1, 1 << 20, {"size of a tile", "tokens"})),
        splits_(reader.integer("splits", 1, 1, 1 << 20,
                               {"sub-sequences, each with a running maximum of its own", "sub-sequences"})),
        union_(reader.choice("gqa", {"union", "per_head"},
                             {"a tile is skipped for all query heads of a KV head (kernels), or for each alone (Model "
                              "Optimizer's emulation)"}) == "union") {}

  std::int64_t tiles(std::int64_t visible) const { return (visible + tile_ - 1) / tile_; }
  /// Number of sub-sequences. Tiles are assigned to them round-robin.
  std::int64_t sub_sequences(std::int64_t visible) const { return std::min<std::int64_t>(tiles(visible), splits_); }
  /// ln(L / f); infinity for f > L, so that nothing is skipped.
  static double delta_of(double factor, std::int64_t visible) {
    const auto length = static_cast<double>(visible);
    return factor > length ? std::numeric_limits<double>::infinity() : std::log(length / factor);
  }
  /// Bytes per query and KV head. All keys are read.
  static IoCost bytes(const KvShape& kv, std::int64_t visible) {
    return {.fixed = kv.key_bytes() * static_cast<double>(visible),
            .per_kept_token = kv.value_bytes_beside_key(),
            .free_tokens = 0};
  }

  bool by_factor_;
  int tile_;  ///< tokens
  int splits_;
  bool union_;
};

/// Defined in skip_softmax_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_skip_softmax(const SkipSoftmaxOptions& options);

}  // namespace attest
