// Kept sub-blocks of a step as shares and bytes, and the settings that keep what was asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/decode_bench/decode_check.h"
#include "analysis/decode_bench/kernel_session.h"
#include "kernels/decode/base/ffd_shape.h"

namespace attest {

/// Sizes of one (sequence, KV head), and how many there are.
struct KeptSubBlocks {
  std::int64_t pairs = 0, length = 0;
  int sub_block = kFfdBlock;

  std::int64_t blocks() const { return length / kFfdBlock; }
  std::int64_t sub_blocks() const { return blocks() * (kFfdBlock / sub_block); }
  std::int64_t tail() const { return length % kFfdBlock; }
  /// Kept sub-blocks of all pairs at which `share` of the tokens is kept, the tail included; rounded.
  std::int64_t count_for(double share) const;
  /// Share of the tokens, of `kept` sub-blocks of all pairs.
  double keep_ratio(std::int64_t kept) const;
};

/// What a rule is run with.
struct RuleSetting {
  double delta = kNotMeasured;        ///< of topdelta
  int keep = 0;                       ///< of topk: sub-blocks of each pair, at least 1
  double asked_share = kNotMeasured;  ///< of the tokens, where the rule was calibrated to a share
};

/// Resolves a setting against the margins of topdelta. Of topk with a delta: the mean of what topdelta keeps.
RuleSetting rule_setting(const KernelSpec& spec, const KeptSubBlocks& units, const RankedBlocks& topdelta);

}  // namespace attest
