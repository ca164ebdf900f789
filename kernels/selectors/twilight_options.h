// Options of twilight and values derived from them, shared by the CPU and CUDA code. Method and sources: twilight.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/page_scores.h"
#include "kernels/quantize/token_asymmetric.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/selector.h"

namespace attest {

class TwilightOptions {
 protected:
  static constexpr TokenAsymmetricQuantizer kKeyQuantizer{.bits = 4, .min_range = 1e-9f};

  explicit TwilightOptions(OptionReader& reader) {
    quest_base_ = reader.choice("base", {"quest", "none"}, {"the base selector: Quest, or all tokens"}) == "quest";
    base_budget_ = reader.budget("base_budget", "8192", {"of the base selector", "tokens or per cent"});
    page_ = reader.integer("page", 16, 1, 1 << 20, {"size of a page of the base selector", "tokens"});
    reference_ =
        reader.choice("rule", {"exact", "reference"},
                      {"the smallest set that reaches p, or the bisection of the released kernel"}) == "reference";
    estimated_weights_ =
        reader.choice("weights", {"exact", "estimated"},
                      {"kept tokens are weighted by exact scores, or by the 4-bit estimate"}) == "estimated";
  }

  std::int64_t pages(std::int64_t visible) const { return pages_of(visible, page_); }

  std::int64_t base_pages(std::int64_t visible) const {
    const auto budget = static_cast<std::int64_t>(base_budget_.resolve(visible));
    return std::min(pages(visible), std::max<std::int64_t>(1, budget / page_) + (budget % page_ > 0 ? 1 : 0));
  }

  /// The cost without the base set: bytes_per_base for each token that is in the base set of any head of the group.
  IoCost bytes(const KvShape& kv, std::int64_t visible) const {
    return {.fixed = quest_base_ ? static_cast<double>(pages(visible)) * 4 * kv.head_dim : 0,
            .per_kept_token = kv.token_bytes(),
            .free_tokens = 0};
  }
  static double bytes_per_base(int head_dim) { return head_dim / 2.0 + 4; }

  bool quest_base_, reference_, estimated_weights_;
  Setting base_budget_;
  int page_;
};

/// Defined in twilight_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_twilight(const TwilightOptions& options);

}  // namespace attest
