// Calibrates delta and the budget of topk.
#include "analysis/decode_bench/kept_share.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attest {

std::int64_t KeptSubBlocks::count_for(double share) const {
  const double tokens = share * static_cast<double>(length) - static_cast<double>(tail());
  const double count = std::round(tokens * static_cast<double>(pairs) / sub_block);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(count), 0, pairs * sub_blocks());
}

double KeptSubBlocks::keep_ratio(std::int64_t kept) const {
  return static_cast<double>(kept * sub_block + pairs * tail()) / static_cast<double>(pairs * length);
}

RuleSetting rule_setting(const KernelSpec& spec, const KeptSubBlocks& units, const RankedBlocks& topdelta) {
  const bool share_given = spec.setting.kind == "keep";
  std::int64_t count = 0;  // of all pairs
  RuleSetting setting;
  if (share_given) {
    count = units.count_for(spec.setting.value);
    setting.delta = delta_that_keeps(topdelta, count);
  } else {
    // Kernels take delta in float32.
    setting.delta = static_cast<float>(spec.setting.value);
    const std::vector<int> counts = counts_within(topdelta, setting.delta);
    count = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  if (spec.rule == "topk") {
    const double mean = static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, units.pairs));
    setting.keep = static_cast<int>(
        std::clamp<std::int64_t>(std::llround(mean), 1, std::max<std::int64_t>(1, units.sub_blocks())));
    setting.asked_share = units.keep_ratio(count);
    setting.delta = kNotMeasured;
  } else if (share_given) {
    setting.delta = static_cast<float>(setting.delta);
    setting.asked_share = spec.setting.value;
  }
  return setting;
}

}  // namespace attest
