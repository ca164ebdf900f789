// Thread blocks of FFD's decode dealt to pairs, a sequence's KV head each: as many for all, or by what each keeps.
#pragma once

#include <cstdint>
#include <span>

namespace attest {

inline constexpr int kFfdMaxCtas = 256;  ///< thread blocks (CTAs) of a fused decode

/// Which pair each CTA has. A pair's CTAs are next to each other, and its blocks are dealt to them in turn, because
/// kept blocks cluster. The kernel is given it by value.
struct FfdDeal {
  struct Share {
    std::uint8_t pair = 0, first = 0, last = 0;  ///< the CTA's pair; the first and the last CTA of that pair
  };
  int ctas = 0;          ///< that have a pair; 0: there is no deal
  int min_per_pair = 0;  ///< the fewest CTAs that a pair has
  Share of_cta[kFfdMaxCtas];
};

/// counts[pair] >= 1 CTAs for each pair, at most kFfdMaxCtas together.
FfdDeal deal_of(std::span<const int> counts);

/// Deals at most `ctas` <= kFfdMaxCtas to pairs of `blocks` full blocks, of which each keeps kept_share[pair], so that
/// the CTA with most work has as little as can be. No deal if there are more pairs than CTAs, or if as many CTAs for
/// every pair are nearly as good.
FfdDeal deal_by_shares(std::span<const float> kept_share, int blocks, int ctas);

}  // namespace attest
