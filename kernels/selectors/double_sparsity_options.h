// Options of double_sparsity and values derived from them, shared by the CPU and CUDA code. Method and sources:
// double_sparsity.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/quantize/token_asymmetric.h"
#include "kernels/selectors/channel_ranking.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"
#include "kernels/selectors/selector.h"

namespace attest {

class DoubleSparsityOptions {
 protected:
  explicit DoubleSparsityOptions(OptionReader& reader) {
    statistic_ = reader.enumeration<ChannelStatistic>("channel", {"qk", "q", "k"},
                                                      {"the ranking of channels: by |q k|, |q| or |k|"});
    group_factor_ =
        reader.integer("group_factor", 4, 1, 1 << 16, {"D / group_factor channels are scored", "head_dim per channel"});
    bits_ = reader.number("bits", {4, 2, 8, 16}, {"of the label cache; 16: not quantised", "bits"});
  }

  /// Channels per label.
  int rank(int head_dim) const { return head_dim / group_factor_; }
  bool quantises() const { return bits_ < 16; }
  TokenAsymmetricQuantizer quantizer() const { return {.bits = bits_, .min_range = 0}; }
  /// Label caches per KV head.
  int caches(int group) const { return statistic_ == ChannelStatistic::k ? 1 : group; }

  static std::int64_t kept_tokens(double budget, std::int64_t visible) {
    return static_cast<std::int64_t>(std::clamp(budget, 1.0, static_cast<double>(visible)));
  }

  IoCost bytes(const KvShape& kv, int group, std::int64_t visible) const {
    const double labels = caches(group) * static_cast<double>(visible);
    return {.fixed = labels * rank(kv.head_dim) * bits_ / 8 + (quantises() ? 4 * labels : 0),
            .per_kept_token = kv.token_bytes(),
            .free_tokens = 0};
  }

  ChannelStatistic statistic_;
  int group_factor_, bits_;
};

/// Keeps a reference to `ranking`, which is read each time a layer is processed. Defined in double_sparsity_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_double_sparsity(const DoubleSparsityOptions& options,
                                                              const ChannelRanking& ranking);

}  // namespace attest
