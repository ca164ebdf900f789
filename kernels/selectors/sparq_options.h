// Options of sparq and values derived from them, shared by the CPU and CUDA code. Method and sources: sparq.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// The tokens that a setting keeps: all from position `forced` on, and the best `others` tokens before it.
struct SparqKept {
  int others = 0, forced = 0;
};

class SparqOptions {
 protected:
  explicit SparqOptions(OptionReader& reader) {
    rank_ = reader.integer("rank", 32, 1, 1 << 16, {"channels of the query that are scored", "channels"});
    local_ = reader.real("local", 0.25, 0, 1, {"share of the budget for the most recent tokens", "share"});
    softmax_scores_ =
        reader.choice("score", {"logits", "softmax"},
                      {"the group's score: sum of logits (code), or of softmax (appendix B)"}) == "softmax";
    exclude_own_token_ =
        reader.choice("count", {"code", "paper"},
                      {"the query's own token comes on top of the budget (code), or not (paper)"}) == "code";
    mean_value_ =
        reader.choice("mean_value", {"on", "off"},
                      {"the mean value stands for dropped tokens, or not (Llama 3 and Mistral in the paper)"}) == "on";
  }

  SparqKept kept(double budget, std::int64_t visible) const {
    const auto length = static_cast<double>(visible);
    const double extra = exclude_own_token_ ? 1 : 0;
    // A budget in per cent of a short context may resolve to 0 tokens. At least one token is kept, so that larger
    // budgets keep supersets.
    budget = std::max(budget, 1 - extra);
    const auto all = static_cast<std::int64_t>(std::min(length, budget + extra));
    const std::int64_t local =
        std::min(all, static_cast<std::int64_t>(std::min(length, std::floor(local_ * budget) + extra)));
    return {static_cast<int>(all - local), static_cast<int>(visible - local)};
  }

  IoCost bytes(const KvShape& kv, std::int64_t visible) const {
    return {.fixed = 2.0 * rank_ * static_cast<double>(visible) + (mean_value_ ? 2.0 * kv.value_dim : 0),
            .per_kept_token = kv.token_bytes(),
            .free_tokens = 0};
  }

  int rank_;
  double local_;
  bool softmax_scores_, exclude_own_token_, mean_value_;
};

/// Defined in sparq_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_sparq(const SparqOptions& options);

}  // namespace attest
