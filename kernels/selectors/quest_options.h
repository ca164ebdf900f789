// Options of quest and values derived from them, shared by the CPU and CUDA code. Method and sources: quest.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention/page_scores.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/selector.h"

namespace attest {

class QuestOptions {
 protected:
  enum class Preset : std::uint8_t { evaluation, kernel };

  explicit QuestOptions(OptionReader& reader) {
    page_ = reader.integer("page", 16, 1, 1 << 20, {"size of a page", "tokens"});
    preset_ = reader.enumeration<Preset>(
        "preset", {"evaluation", "kernel"},
        {"how a budget becomes pages: as in the evaluation code, or as in the CUDA kernels"});
    shared_ = reader.choice("gqa", {"per_head", "shared"},
                            {"a KV head's query heads keep pages of their own, or share them"}) == "shared";
  }

  std::int64_t pages(std::int64_t visible) const { return pages_of(visible, page_); }

  /// n of the preset (quest.cpp).
  std::int64_t kept_pages(double budget, std::int64_t visible) const {
    const double asked = preset_ == Preset::evaluation
                             ? std::max(3.0, std::floor(std::min(budget, static_cast<double>(visible)) / page_))
                             : std::max(1.0, std::floor(budget / page_));
    return static_cast<std::int64_t>(std::min(asked, static_cast<double>(pages(visible))));
  }

  IoCost bytes(const KvShape& kv, std::int64_t visible) const {
    return {.fixed = static_cast<double>(pages(visible)) * 4 * kv.head_dim,
            .per_kept_token = kv.token_bytes(),
            .free_tokens = 0};
  }

  int page_;
  Preset preset_;
  bool shared_;
};

/// Defined in quest_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_quest(const QuestOptions& options);

}  // namespace attest
