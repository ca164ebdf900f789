// FFD's rule on the largest scores of a scan: what a kernel is run with, and what it should keep.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/decode_bench/decode_method_cuda.h"
#include "analysis/decode_bench/kept_share.h"

namespace attest {

class FfdRule {
 public:
  /// `bits`: of the scan's keys.
  FfdRule(const KernelSpec& spec, const DecodeContext& context, const KeptSubBlocks& sizes, int bits);

  const KeptSubBlocks& sizes() const { return sizes_; }
  const RuleSetting& setting() const { return setting_; }
  bool is_topk() const { return spec_.rule == "topk"; }

  /// Compares how many sub-blocks of each pair were kept with what the rule keeps. Returns the flags of those that it
  /// keeps.
  std::vector<std::uint8_t> check(std::span<const int> kept, KernelCheck& check) const;
  /// Settings and shares of `kept` sub-blocks, for which `bytes` were read.
  void describe(std::int64_t kept, double bytes, KernelResult& result) const;

 private:
  RankedBlocks ranked(const std::vector<double>& margins) const {
    return {.margins = margins,
            .pairs = sizes_.pairs,
            .sub_blocks = sizes_.sub_blocks(),
            .num_kv_heads = context_.inputs.what.shape.num_kv_heads};
  }

  const KernelSpec spec_;
  const DecodeContext context_;
  const KeptSubBlocks sizes_;
  const std::vector<double> maxima_;    ///< [rows, sub_blocks] largest scores
  const std::vector<double> topdelta_;  ///< margins
  const RuleSetting setting_;
};

}  // namespace attest
