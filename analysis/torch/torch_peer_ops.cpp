// The formulas of kernels/quantize, kernels/attention and kernels/rank in eager LibTorch.
#include "analysis/torch/torch_peer_ops.h"

#include <ATen/ATen.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "kernels/base/not_defined.h"

namespace attest::torch_peer {
namespace {

/// x / divisor, rounded once. On CUDA, LibTorch divides by a number by multiplying with its rounded inverse. 16-bit
/// keys are often exactly between two codes, so that the additional rounding would change codes.
Tensor true_divide(const Tensor& x, double divisor) { return x / at::full({}, divisor, x.options()); }

}  // namespace

Tensor dot(const Tensor& q, const Tensor& k, double scale) { return at::matmul(q, k.transpose(-1, -2)) * scale; }

std::pair<Tensor, Tensor> ffd_keys(const Tensor& k) {
  const int64_t blocks = k.size(1) / kBlock;
  const Tensor b = k.slice(1, 0, blocks * kBlock).reshape({k.size(0), blocks, kBlock, k.size(2)});
  const Tensor s = true_divide(b.abs().amax(2, true), 1.5).clamp_min(1e-8);
  const Tensor thumbnail = ((b / s + 1.5).round().clamp(0, 3) - 1.5) * s;
  const Tensor residual = (b - thumbnail).clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat);
  return {thumbnail.flatten(1, 2), (thumbnail + residual).flatten(1, 2)};
}

Tensor kivi_groups(const Tensor& x, std::int64_t size, bool along_tokens) {
  const auto sizes = x.sizes();
  const Tensor grouped = along_tokens ? x.reshape({sizes[0], sizes[1] / size, size, sizes[2]})
                                      : x.reshape({sizes[0], sizes[1], sizes[2] / size, size});
  const int64_t axis = along_tokens ? 2 : 3;
  const Tensor low = grouped.amin(axis, true), step = true_divide(grouped.amax(axis, true) - low, 3);
  const Tensor codes = at::nan_to_num((grouped - low) / step, 0.0).clamp(0, 3).round();
  return (codes * step + low).reshape(sizes);
}

Tensor twilight_keys(const Tensor& k) {
  const Tensor low = k.amin(2, true), step = true_divide((k.amax(2, true) - low).clamp_min(1e-9), 15);
  return ((k - low) / step).round().clamp(0, 15) * step + low;
}

Tensor page_scores(const Tensor& q, const Tensor& k, double scale) {
  const int64_t length = k.size(1), pages = (length + kPage - 1) / kPage, pad = pages * kPage - length;
  const auto paged = [&](double fill) {
    return at::constant_pad_nd(k, {0, 0, 0, pad}, fill).reshape({k.size(0), pages, kPage, k.size(2)});
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor low = paged(kInf).amin(2), high = paged(-kInf).amax(2);
  return dot(q.clamp_min(0), high, scale) + dot(q.clamp_max(0), low, scale);
}

Tensor best_pages(const Tensor& pages, int64_t n, int64_t length) {
  const Tensor index = std::get<1>(pages.topk(std::min(n, pages.size(2)), 2));
  const Tensor mask = at::zeros(pages.sizes(), pages.options().dtype(at::kBool)).scatter_(2, index, true);
  return mask.repeat_interleave(kPage, 2).slice(2, 0, length);
}

Tensor top_gap(const Tensor& x) {
  if (x.size(-1) == 1) return at::full_like(x, kNaN).select(-1, 0);
  const Tensor top = std::get<0>(x.topk(2, -1));
  return top.select(-1, 0) - top.select(-1, 1);
}

Tensor average_ranks(const Tensor& x) {
  if (x.numel() == 0) return x;
  const Tensor flat = x.reshape({-1, x.size(-1)});
  auto [sorted, order] = flat.sort(-1);
  const int64_t n = flat.size(1);
  Tensor starts = at::ones_like(sorted, at::kBool);
  starts.slice(1, 1).copy_(sorted.slice(1, 1) != sorted.slice(1, 0, n - 1));
  const Tensor group = starts.to(at::kLong).cumsum(1) - 1;
  const Tensor position = at::arange(1, n + 1, flat.options()).expand_as(flat);
  const Tensor sums = at::zeros_like(flat).scatter_add_(1, group, position);
  const Tensor counts = at::zeros_like(flat).scatter_add_(1, group, at::ones_like(flat));
  const Tensor ranks = at::zeros_like(flat).scatter_(1, order, (sums / counts).gather(1, group));
  return ranks.reshape(x.sizes());
}

Tensor correlation(const Tensor& a, const Tensor& b) {
  const Tensor x = a - a.mean(-1, true), y = b - b.mean(-1, true);
  return (x * y).sum(-1) / ((x * x).sum(-1) * (y * y).sum(-1)).sqrt();
}

Tensor block_max(const Tensor& x, int64_t block) {
  const int64_t blocks = x.size(-1) / block;
  return x.slice(-1, 0, blocks * block).reshape({x.size(0), x.size(1), blocks, block}).amax(-1);
}

}  // namespace attest::torch_peer
