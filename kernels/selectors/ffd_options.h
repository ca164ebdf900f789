// Options of ffd and values derived from them, shared by the CPU and CUDA code. Method and sources: ffd.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/quantize/ffd_thumbnail.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/selector.h"

namespace attest {

enum class FfdPseudoMax : std::uint8_t { thumbnail, exact, global, global_exact };

class FfdOptions {
 protected:
  enum class DeltaUnit : std::uint8_t { natural, log2, unscaled };
  enum class Rule : std::uint8_t { topdelta, topk, topp };

  explicit FfdOptions(OptionReader& reader) {
    quantizer_.bits = reader.number("bits", {2, 1, 3, 4, 8}, {"of a key in the thumbnail", "bits"});
    block_ = reader.integer("block", 128, 1, 1 << 20,
                            {"size of a quantised block; the scale of a channel belongs to it", "tokens"});
    sub_block_ = reader.integer("sub_block", block_, 1, 1 << 20,
                                {"what the rule keeps or drops; divides block, and is as large by default", "tokens"});
    scale_per_sequence_ = reader.choice("scale", {"block", "sequence"},
                                        {"a channel's scale is of its block, or of all full blocks"}) == "sequence";
    quantizer_.residual =
        reader.enumeration<FfdResidual>("residual", {"fp8", "int8", "none", "exact"},
                                        {"what is added to the kept keys: 8 bits, nothing, or the exact keys"});
    pseudo_max_ = reader.enumeration<FfdPseudoMax>("pseudo_max", {"thumbnail", "exact", "global", "global_exact"},
                                                   {"the reference of delta: the largest score of the sink and local "
                                                    "blocks, from thumbnails or exact; or of all blocks"});
    union_ = reader.choice("gqa", {"union", "per_head"},
                           {"a KV head's query heads share what any of them keeps, or not"}) == "union";
    delta_unit_ = reader.enumeration<DeltaUnit>(
        "delta_unit", {"natural", "log2", "unscaled"},
        {"delta in natural-log units, of base-2 scores (released kernels), or of unscaled products (Algorithm 1)"});
    sink_blocks_ = reader.integer("sink_blocks", 1, 0, 1 << 20,
                                  {"full blocks at the start that the pseudo-maximum looks at", "blocks"});
    local_blocks_ = reader.integer("local_blocks", 1, 0, 1 << 20,
                                   {"full blocks at the end that the pseudo-maximum looks at", "blocks"});
    scans_exactly_ = reader.choice("scan", {"thumbnail", "exact"},
                                   {"the estimate: from thumbnails, or the exact scores"}) == "exact";
    rule_ = reader.enumeration<Rule>("rule", {"topdelta", "topk", "topp"},
                                     {"Top-delta, or the ablations top-k (budget) and top-p (p)"});
    quantizer_.arithmetic = reader.enumeration<QuantArithmetic>(
        "quant_arith", {"float32", "dump"},
        {"rounding of the quantiser: none, or to the type of the dump as released"});
  }

  /// Converts a delta from delta_unit to natural-log units.
  double natural(double delta, const ScoreTransform& transform) const {
    switch (delta_unit_) {
      case DeltaUnit::log2:
        return delta * std::numbers::ln2;
      case DeltaUnit::unscaled:
        return delta * transform.scale;
      case DeltaUnit::natural:
        break;
    }
    return delta;
  }

  std::int64_t full_blocks(std::int64_t visible) const { return visible / block_; }

  /// How many of `all` sub-blocks rule = topk keeps.
  double kept_sub_blocks(double budget, double all) const {
    return std::min(all, std::max(1.0, std::floor(budget / sub_block_)));
  }

  IoCost bytes(const KvShape& kv, std::int64_t visible) const {
    const double d = kv.head_dim, f = static_cast<double>(full_blocks(visible)), b = block_;
    const double tail = static_cast<double>(visible) - f * b, tail_bytes = tail * kv.token_bytes();
    if (scans_exactly_)
      return {.fixed = f * b * kv.key_bytes() + tail_bytes,
              .per_kept_token = kv.value_bytes_beside_key(),
              .free_tokens = tail};
    const double residual = quantizer_.residual == FfdResidual::exact  ? kv.key_bytes()
                            : quantizer_.residual == FfdResidual::none ? 0
                                                                       : d;
    const double scan = f * b * d * quantizer_.bits / 8.0 + (scale_per_sequence_ ? 2 * d : 2 * d * f);
    const double kept = residual + kv.value_bytes();
    // Where the values are in the keys, a key may be less to read than its residual and the value.
    return {.fixed = scan + tail_bytes,
            .per_kept_token = kv.values_in_keys ? std::min(kept, kv.key_bytes()) : kept,
            .free_tokens = tail};
  }

  FfdQuantizer quantizer_;
  int block_, sub_block_, sink_blocks_, local_blocks_;
  bool scale_per_sequence_, union_, scans_exactly_;
  FfdPseudoMax pseudo_max_;
  DeltaUnit delta_unit_;
  Rule rule_;
};

/// Defined in ffd_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_ffd(const FfdOptions& options);

}  // namespace attest
