// Options of topk, topp and topdelta and values derived from them, shared by the CPU and CUDA code. Rules: oracles.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"

namespace attest {

class OracleOptions {
 protected:
  explicit OracleOptions(OptionReader& reader) {
    by_block_ = reader.choice("granularity", {"token", "block"}, {"what the rule keeps or drops"}) == "block";
    const int block = reader.integer("block", 128, 1, 1 << 20, {"size of a block; needs granularity=block", "tokens"});
    block_ = by_block_ ? block : 1;
    union_ = reader.choice("gqa", {"per_head", "union"},
                           {"a KV head's query heads keep sets of their own, or what any of them keeps"}) == "union";
  }

  std::int64_t items(std::int64_t visible) const { return (visible + block_ - 1) / block_; }
  /// n of topk (oracles.cpp).
  std::int64_t kept_items(double budget, std::int64_t visible) const {
    return static_cast<std::int64_t>(
        std::min(static_cast<double>(items(visible)), std::max(1.0, std::floor(budget / block_))));
  }

  bool by_block_, union_;
  int block_ = 1;  ///< tokens per item
};

// Defined in oracles_cuda.cpp.
std::shared_ptr<const CudaSelector> make_cuda_topk(const OracleOptions& options);
std::shared_ptr<const CudaSelector> make_cuda_topp(const OracleOptions& options);
std::shared_ptr<const CudaSelector> make_cuda_topdelta(const OracleOptions& options);

}  // namespace attest
