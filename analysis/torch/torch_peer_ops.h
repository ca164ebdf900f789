// Tensors that the methods of the peer are made of: quantised keys and values, page bounds, ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace attest::torch_peer {

using at::Tensor;

inline constexpr int kBlock = 128, kPage = 16;

/// scale * q.k. q [Hkv, G, D], k [Hkv, L, D]; the result is [Hkv, G, L].
Tensor dot(const Tensor& q, const Tensor& k, double scale);

/// Thumbnail and refined keys of the F full blocks, [Hkv, F * 128, D] each.
std::pair<Tensor, Tensor> ffd_keys(const Tensor& k);

/// x [Hkv, L, C] in asymmetric 2 bits, by groups of `size` tokens or of `size` channels.
Tensor kivi_groups(const Tensor& x, std::int64_t size, bool along_tokens);

/// k [Hkv, L, D] in asymmetric 4 bits, by token.
Tensor twilight_keys(const Tensor& k);

/// Upper bound of the scores in each page, [Hkv, G, pages].
Tensor page_scores(const Tensor& q, const Tensor& k, double scale);

/// Token mask [Hkv, G, length] of the n best pages.
Tensor best_pages(const Tensor& pages, std::int64_t n, std::int64_t length);

/// Largest less second largest along the last axis; NaN where that has one element.
Tensor top_gap(const Tensor& x);

/// Average ranks along the last axis.
Tensor average_ranks(const Tensor& x);

/// Pearson's r along the last axis; NaN where one of them is constant or empty.
Tensor correlation(const Tensor& a, const Tensor& b);

/// Maxima over full blocks of the last axis, [Hkv, G, blocks]; there may be none.
Tensor block_max(const Tensor& x, std::int64_t block);

}  // namespace attest::torch_peer
