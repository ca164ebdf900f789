// What the scan of ffd knows besides its estimates: the steps of its codes, and the pseudo-maximum. CPU code.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/base/lane_sum.h"
#include "kernels/selectors/ffd_options.h"

namespace attest {

class FfdScan : protected FfdOptions {
 public:
  explicit FfdScan(OptionReader& reader) : FfdOptions(reader) {}

  std::int64_t block() const { return block_; }

  /// s_d of every block of keys [blocks, D] over `covered` tokens: a code's neighbours are s_d apart, so a key is
  /// within s_d / 2 of its thumbnail.
  std::vector<float> steps(const KvHead& head, std::int64_t covered) const {
    FfdQuantizer quantizer = quantizer_;
    quantizer.element_type = head.element_type;
    const auto dim = static_cast<std::size_t>(head.head_dim), blocks = static_cast<std::size_t>(covered / block_);
    std::vector<float> steps(blocks * dim);
    const std::int64_t tokens = scale_per_sequence_ ? covered : block_;
    const std::size_t computed = scale_per_sequence_ ? std::min<std::size_t>(1, blocks) : blocks;
    for (std::size_t b = 0; b < computed; ++b)
      ffd_scales(quantizer, head.keys + static_cast<std::int64_t>(b) * block_ * head.head_dim, tokens, head.head_dim,
                 std::span(steps).subspan(b * dim, dim));
    for (std::size_t i = computed * dim; i < steps.size(); ++i) steps[i] = steps[i - dim];
    return steps;
  }

  /// m~ of a row whose full blocks hold `covered` > 0 tokens, from its exact and estimated scores.
  double pseudo_max(const double* exact, const double* estimate, std::int64_t covered) const {
    switch (pseudo_max_) {
      case FfdPseudoMax::exact:
        return sink_local_max(exact, covered);
      case FfdPseudoMax::global:
        return max_over(estimate, 0, covered);
      case FfdPseudoMax::global_exact:
        return max_over(exact, 0, covered);
      case FfdPseudoMax::thumbnail:
        break;
    }
    return sink_local_max(estimate, covered);
  }

 protected:
  static double max_over(const double* scores, std::int64_t begin, std::int64_t end) {
    return lane_max(static_cast<std::size_t>(end - begin), -std::numeric_limits<double>::infinity(),
                    [&](std::size_t t) { return scores[begin + static_cast<std::int64_t>(t)]; });
  }

  /// Maximum over the sink and local blocks of a row.
  double sink_local_max(const double* scores, std::int64_t covered) const {
    return std::max(
        max_over(scores, 0, std::min(covered, static_cast<std::int64_t>(sink_blocks_) * block_)),
        max_over(scores, std::max<std::int64_t>(0, covered - static_cast<std::int64_t>(local_blocks_) * block_),
                 covered));
  }
};

}  // namespace attest
