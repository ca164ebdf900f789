// Checks of what FFD's rule has kept.
#include "analysis/decode_bench/ffd_rule_cuda.h"

#include <algorithm>

namespace attest {

FfdRule::FfdRule(const KernelSpec& spec, const DecodeContext& context, const KeptSubBlocks& sizes, int bits)
    : spec_(spec),
      context_(context),
      sizes_(sizes),
      maxima_(context.reference.maxima(bits, sizes.sub_block)),
      topdelta_(topdelta_margins(head_maxima(context, maxima_))),
      setting_(rule_setting(spec, sizes_, ranked(topdelta_))) {}

std::vector<std::uint8_t> FfdRule::check(std::span<const int> kept, KernelCheck& check) const {
  const std::vector<double> margins = is_topk() ? topk_margins(head_maxima(context_, maxima_)) : topdelta_;
  const RankedBlocks blocks = ranked(margins);
  const std::vector<int> expected =
      is_topk()
          ? std::vector<int>(kept.size(), static_cast<int>(std::min<std::int64_t>(setting_.keep, sizes_.sub_blocks())))
          : counts_within(blocks, setting_.delta);
  check_counts(name_of(spec_, context_), blocks, kept, expected, setting_.delta, check);
  return lowest_margins(blocks, kept);
}

void FfdRule::describe(std::int64_t kept, double bytes, KernelResult& result) const {
  result.bytes = bytes;
  result.io_ratio = bytes / dense_bytes(context_.inputs.what);
  result.keep_ratio = sizes_.keep_ratio(kept);
  result.delta = setting_.delta;
  result.setting = is_topk() ? KernelSetting{.kind = "keep", .value = setting_.asked_share} : spec_.setting;
}

}  // namespace attest
