// Eager LibTorch study of a layer: query by query, setting by setting, float32.
#include "analysis/torch/torch_peer.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>

#include <chrono>
#include <limits>
#include <map>

#include "dumps/base/error.h"

namespace attest {
namespace {

using at::Tensor;
using at::indexing::Slice;

constexpr int kBlock = 128, kPage = 16;

/// One query: everything is [Hkv, G, L] or [Hkv, L, ...].
struct Query {
  Tensor q, k, v;                // [Hkv, G, D], [Hkv, L, D], [Hkv, L, Dv]
  Tensor scores, probabilities;  // [Hkv, G, L]
  Tensor output, lse, max;       // [Hkv, G, Dv], [Hkv, G], [Hkv, G, 1]
  double scale = 1;
  int64_t length = 0;
};

struct Kept {
  Tensor mask;  // bool [Hkv, G, L]
  Tensor read_scores, read_values;
  double io_fixed = 0, io_per_token = 0, io_free = 0;
  Tensor io_fixed_per_head;  // [Hkv] or undefined: added to io_fixed
};

/// Estimates of a method for one query: scores over the first `covered` tokens.
struct Scan {
  Tensor estimate;  // [Hkv, G, covered] or undefined
  Tensor refined;   // [Hkv, G, L] scores that the computer reads, or undefined: exact
  Tensor values;    // [Hkv, L, Dv] values that the computer reads, or undefined: exact
  Tensor order;     // what a rule sorted, or undefined
};

/// x / divisor, rounded once. On CUDA a division by a number would multiply by its rounded inverse, and 16-bit keys
/// stand often enough on the border between two codes for that to show.
Tensor true_divide(const Tensor& x, double divisor) { return x / at::full({}, divisor, x.options()); }

Tensor dot(const Tensor& q, const Tensor& k, double scale) { return at::matmul(q, k.transpose(-1, -2)) * scale; }

/// Thumbnail and refined keys over the full blocks, once per layer: [Hkv, F * 128, D] each.
std::pair<Tensor, Tensor> ffd_keys(const Tensor& k) {
  const int64_t blocks = k.size(1) / kBlock;
  const Tensor b = k.slice(1, 0, blocks * kBlock).reshape({k.size(0), blocks, kBlock, k.size(2)});
  const Tensor s = true_divide(b.abs().amax(2, true), 1.5).clamp_min(1e-8);
  const Tensor thumbnail = ((b / s + 1.5).round().clamp(0, 3) - 1.5) * s;
  const Tensor residual = (b - thumbnail).clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat);
  return {thumbnail.flatten(1, 2), (thumbnail + residual).flatten(1, 2)};
}

Tensor kivi_groups(const Tensor& x, int64_t dim_size, bool along_tokens) {
  const auto sizes = x.sizes();
  const Tensor grouped = along_tokens ? x.reshape({sizes[0], sizes[1] / dim_size, dim_size, sizes[2]})
                                      : x.reshape({sizes[0], sizes[1], sizes[2] / dim_size, dim_size});
  const int64_t axis = along_tokens ? 2 : 3;
  const Tensor low = grouped.amin(axis, true), step = true_divide(grouped.amax(axis, true) - low, 3);
  const Tensor codes = at::nan_to_num((grouped - low) / step, 0.0).clamp(0, 3).round();
  return (codes * step + low).reshape(sizes);
}

Tensor twilight_keys(const Tensor& k) {
  const Tensor low = k.amin(2, true), step = true_divide((k.amax(2, true) - low).clamp_min(1e-9), 15);
  return ((k - low) / step).round().clamp(0, 15) * step + low;
}

/// Page bound [Hkv, G, pages].
Tensor page_scores(const Query& query) {
  const int64_t pages = (query.length + kPage - 1) / kPage, pad = pages * kPage - query.length;
  const auto paged = [&](const Tensor& k, double fill) {
    return at::constant_pad_nd(k, {0, 0, 0, pad}, fill).reshape({k.size(0), pages, kPage, k.size(2)});
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor low = paged(query.k, kInf).amin(2), high = paged(query.k, -kInf).amax(2);
  return dot(query.q.clamp_min(0), high, query.scale) + dot(query.q.clamp_max(0), low, query.scale);
}

/// Keeps the n best pages of [Hkv, G, pages] as a token mask.
Tensor best_pages(const Tensor& pages, int64_t n, int64_t length) {
  const Tensor index = std::get<1>(pages.topk(std::min(n, pages.size(2)), 2));
  const Tensor mask = at::zeros(pages.sizes(), pages.options().dtype(at::kBool)).scatter_(2, index, true);
  return mask.repeat_interleave(kPage, 2).slice(2, 0, length);
}

/// Average ranks along the last axis.
Tensor average_ranks(const Tensor& x) {
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

/// Collects [N, Hq, ...] arrays as LayerResults has them.
class Arrays {
 public:
  Arrays(std::vector<MetricValues>& out, int64_t queries) : out_(out), queries_(queries) {}
  /// values [Hq] or [Hkv, G] of (query, item), item < items.
  void put(const std::string& name, MetricAxes axes, int64_t query, int64_t item, int64_t items, const Tensor& values) {
    const Tensor host = values.reshape({-1}).to(at::kCPU, at::kFloat).contiguous();
    const int64_t heads = host.numel();
    auto [slot, fresh] = index_.try_emplace(name, out_.size());
    if (fresh)
      out_.push_back(
          {name, axes,
           std::vector<float>(static_cast<size_t>(queries_ * heads * items), std::numeric_limits<float>::quiet_NaN())});
    float* cells = out_[slot->second].values.data();
    for (int64_t h = 0; h < heads; ++h) cells[(query * heads + h) * items + item] = host.const_data_ptr<float>()[h];
  }

 private:
  std::vector<MetricValues>& out_;
  int64_t queries_;
  std::map<std::string, size_t> index_;
};

class TorchPeer {
 public:
  TorchPeer(const AttentionLayer& layer, const Study& study, const std::string& device) : layer_(layer), study_(study) {
    const at::ScalarType type = layer.element_type == ElementType::bfloat16  ? at::kBFloat16
                                : layer.element_type == ElementType::float16 ? at::kHalf
                                                                             : at::kFloat;
    const AttentionShape& s = layer.shape;
    const auto load = [&](const LayerBuffer& b, at::IntArrayRef sizes) {
      return at::from_blob(const_cast<std::byte*>(b.data()), sizes, at::TensorOptions().dtype(type))
          .to(at::Device(device))
          .to(at::kFloat);
    };
    q_ = load(layer.q, {layer.num_queries(), s.num_kv_heads, s.group(), s.head_dim});
    k_ = load(layer.k, {s.num_kv_heads, layer.num_tokens, s.head_dim});
    v_ = load(layer.v, {s.num_kv_heads, layer.num_tokens, s.value_dim});
    if (!layer.sinks.empty())
      sinks_ = at::tensor(layer.sinks, at::TensorOptions().dtype(at::kFloat))
                   .reshape({s.num_kv_heads, s.group()})
                   .to(at::Device(device));
  }

  LayerResults run() {
    LayerResults results;
    results.layer = layer_.layer;
    results.selectors.resize(study_.selectors.size());
    Arrays score_arrays(results.scores, layer_.num_queries());
    std::vector<Arrays> arrays;
    for (auto& selector : results.selectors) arrays.emplace_back(selector.metrics, layer_.num_queries());
    for (const StudySelector& s : study_.selectors) {
      if (s.name == "ffd") ffd_keys_ = ffd_keys(k_);
      if (s.name == "twilight") twilight_keys_ = twilight_keys(k_);
    }
    for (int64_t n = 0; n < layer_.num_queries(); ++n) {
      const Query query = attend(n);
      score_arrays.put("lse", MetricAxes::query_head, n, 0, 1, query.lse);
      const Tensor top = std::get<0>(query.scores.topk(2, -1));
      score_arrays.put("top1_top2_gap", MetricAxes::query_head, n, 0, 1, top.select(-1, 0) - top.select(-1, 1));
      score_arrays.put("score_std", MetricAxes::query_head, n, 0, 1, query.scores.std(-1, false));
      score_arrays.put("entropy", MetricAxes::query_head, n, 0, 1,
                       at::logsumexp(query.scores, {-1}) - (query.probabilities * query.scores).sum(-1));
      for (size_t s = 0; s < study_.selectors.size(); ++s) study_selector(query, n, study_.selectors[s], arrays[s]);
    }
    return results;
  }

 private:
  Tensor with_sinks(const Tensor& keys_lse) const {
    return sinks_.defined() ? at::logaddexp(keys_lse, sinks_) : keys_lse;
  }

  Query attend(int64_t n) const {
    Query query;
    query.length = layer_.query_positions[static_cast<size_t>(n)] + 1;
    query.scale = layer_.softmax_scale;
    query.q = q_[n];
    query.k = k_.slice(1, 0, query.length);
    query.v = v_.slice(1, 0, query.length);
    query.scores = dot(query.q, query.k, query.scale);
    const Tensor keys_lse = at::logsumexp(query.scores, {-1});
    query.lse = with_sinks(keys_lse);
    query.max = query.scores.amax(-1, true);
    query.probabilities = (query.scores - keys_lse.unsqueeze(-1)).exp();
    query.output = at::matmul((query.scores - query.lse.unsqueeze(-1)).exp(), query.v);
    return query;
  }

  Scan scan(const Query& query, const std::string& name) const {
    Scan out;
    if (name == "ffd") {
      const int64_t covered = query.length / kBlock * kBlock;
      out.estimate = dot(query.q, ffd_keys_.first.slice(1, 0, covered), query.scale);
      out.refined = at::cat(
          {dot(query.q, ffd_keys_.second.slice(1, 0, covered), query.scale), query.scores.slice(2, covered)}, 2);
    } else if (name == "quest") {
      out.order = page_scores(query);
      out.estimate = out.order.repeat_interleave(kPage, 2).slice(2, 0, query.length);
    } else if (name == "kivi") {
      const int64_t keys = (query.length - 1) / 128 * 128, values = std::max<int64_t>(0, query.length - 129);
      const Tensor k = at::cat({kivi_groups(query.k.slice(1, 0, keys), 32, true), query.k.slice(1, keys)}, 1);
      out.estimate = out.refined = dot(query.q, k, query.scale);
      out.values = at::cat({kivi_groups(query.v.slice(1, 0, values), 32, false), query.v.slice(1, values)}, 1);
    } else if (name == "twilight") {
      out.estimate = dot(query.q, twilight_keys_.slice(1, 0, query.length), query.scale);
      const int64_t pages = (query.length + kPage - 1) / kPage, n = std::min<int64_t>(pages, 8192 / kPage);
      const Tensor base = best_pages(page_scores(query), n, query.length);
      out.order = at::softmax(out.estimate.masked_fill(~base, -std::numeric_limits<double>::infinity()), -1);
    }
    return out;
  }

  Kept keep(const Query& query, const std::string& name, const Scan& scan, double setting) const {
    const double d = static_cast<double>(query.k.size(2)), dv = static_cast<double>(query.v.size(2)),
                 length = static_cast<double>(query.length);
    const int64_t pages = (query.length + kPage - 1) / kPage;
    Kept kept{.mask = at::ones_like(query.scores, at::kBool),
              .read_scores = scan.refined.defined() ? scan.refined : query.scores,
              .read_values = scan.values.defined() ? scan.values : query.v,
              .io_per_token = 2 * (d + dv),
              .io_fixed_per_head = {}};
    if (name == "ffd") {
      const int64_t blocks = query.length / kBlock, covered = blocks * kBlock;
      const Tensor best = block_max(scan.estimate, kBlock);
      const Tensor peak = at::maximum(best.select(2, 0), best.select(2, blocks - 1)).unsqueeze(-1);
      const Tensor kept_blocks = (best >= peak - setting).any(1, true).expand_as(best);
      kept.mask.slice(2, 0, covered).copy_(kept_blocks.repeat_interleave(kBlock, 2));
      kept.io_free = static_cast<double>(query.length - covered);
      kept.io_fixed = static_cast<double>(blocks) * (kBlock * d / 4 + 2 * d) + kept.io_free * 2 * (d + dv);
      kept.io_per_token = d + 2 * dv;
    } else if (name == "quest") {
      const auto n =
          std::min<int64_t>(std::max<int64_t>(3, static_cast<int64_t>(std::min(setting, length)) / kPage), pages);
      kept.mask = best_pages(scan.order, n, query.length);
      kept.io_fixed = static_cast<double>(pages) * 4 * d;
    } else if (name == "kivi") {
      const double nk = static_cast<double>((query.length - 1) / 128 * 128), nv = std::max(0.0, length - 129);
      kept.io_fixed = nk * d / 4 + nk / 32 * 4 * d + (length - nk) * 2 * d + nv * dv / 4 + nv * (dv / 32) * 4 +
                      (length - nv) * 2 * dv;
      kept.io_per_token = 0;
    } else if (name == "twilight") {
      auto [weights, order] = scan.order.sort(-1, true);
      const Tensor before = weights.cumsum(-1) - weights;
      kept.mask = at::zeros_like(kept.mask).scatter_(2, order, (before < setting - 1e-6).logical_and(weights > 0));
      kept.io_fixed = static_cast<double>(pages) * 4 * d;
      kept.io_fixed_per_head = (scan.order > 0).any(1).sum(-1) * (d / 2 + 4);
    } else if (name == "streaming_llm") {
      kept.mask.slice(2, 4, std::max<int64_t>(4, query.length - static_cast<int64_t>(std::max(1.0, setting - 4))))
          .fill_(false);
    }
    return kept;
  }

  void study_selector(const Query& query, int64_t n, const StudySelector& selector, Arrays& out) const {
    const Scan found = scan(query, selector.name);
    if (found.estimate.defined()) estimate_metrics(query, n, found.estimate, out);
    for (size_t i = 0; i < selector.grid.size(); ++i) {
      const double setting = selector.grid[i].resolve(query.length);
      setting_metrics(query, n, static_cast<int64_t>(i), static_cast<int64_t>(selector.grid.size()),
                      keep(query, selector.name, found, setting),
                      selector.name == "ffd" ? setting : study_.salient_delta, out);
    }
  }

  void estimate_metrics(const Query& query, int64_t n, const Tensor& estimate, Arrays& out) const {
    const Tensor exact = query.scores.slice(2, 0, estimate.size(2));
    const auto put = [&](const char* name, const Tensor& t) { out.put(name, MetricAxes::query_head, n, 0, 1, t); };
    put("spearman", correlation(average_ranks(estimate), average_ranks(exact)));
    put("pearson", correlation(estimate, exact));
    for (int64_t block : {16, 128})
      put(block == 16 ? "spearman_block16" : "spearman_block128",
          correlation(average_ranks(block_max(estimate, block)), average_ranks(block_max(exact, block))));
    const Tensor error = estimate - exact;
    put("scan_error_mean", error.mean(-1));
    put("scan_error_std", error.std(-1, false));
    put("scan_error_max", error.abs().amax(-1));
    const auto lambdas = static_cast<int64_t>(study_.lambdas.size());
    for (int64_t m = 0; m < lambdas; ++m) {
      const double lambda = study_.lambdas[static_cast<size_t>(m)];
      out.put("scan_error_tail", MetricAxes::query_head_lambda, n, m, lambdas,
              (error.abs() >= lambda).to(at::kFloat).mean(-1));
      out.put("scan_error_lower_tail", MetricAxes::query_head_lambda, n, m, lambdas,
              (error <= -lambda).to(at::kFloat).mean(-1));
    }
  }

  void setting_metrics(const Query& query, int64_t n, int64_t i, int64_t settings, const Kept& kept, double delta,
                       Arrays& out) const {
    const auto put = [&](const char* name, const Tensor& t) {
      out.put(name, MetricAxes::query_head_setting, n, i, settings, t);
    };
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const Tensor masked = kept.read_scores.masked_fill(~kept.mask, -kInf);
    const Tensor lse = with_sinks(at::logsumexp(masked, {-1}));
    const Tensor output = at::matmul((masked - lse.unsqueeze(-1)).exp(), kept.read_values);
    put("recall", at::cosine_similarity(output, query.output, -1));
    put("output_error", (output - query.output).norm(2, -1) / query.output.norm(2, -1));
    put("lse_error", (lse - query.lse).abs());
    put("mass_recall", (query.probabilities * kept.mask).sum(-1));
    put("keep_ratio", kept.mask.sum(-1) / static_cast<double>(query.length));
    for (const bool fixed : {false, true}) {
      const Tensor salient = query.scores >= query.max - (fixed ? study_.salient_delta : delta);
      const Tensor count = salient.sum(-1);
      put(fixed ? "salient_hit_rate_fixed" : "salient_hit_rate", salient.logical_and(kept.mask).sum(-1) / count);
      if (fixed) continue;
      put("salient_ratio", count / static_cast<double>(query.length));
      put("missed_salient_mass", (query.probabilities * salient.logical_and(~kept.mask)).sum(-1));
    }
    const Tensor dropped = query.scores.masked_fill(kept.mask, -kInf).amax(-1);
    put("dropped_gap",
        at::where(dropped == -kInf, std::numeric_limits<double>::quiet_NaN(), query.max.squeeze(-1) - dropped));
    const Tensor any = kept.mask.any(1).sum(-1);
    Tensor bytes = kept.io_fixed + kept.io_per_token * (any - kept.io_free);
    if (kept.io_fixed_per_head.defined()) bytes = bytes + kept.io_fixed_per_head;
    const double dense =
        2.0 * static_cast<double>(query.k.size(2) + query.v.size(2)) * static_cast<double>(query.length);
    put("io_ratio", (bytes / dense).unsqueeze(-1).expand({-1, query.q.size(1)}));
  }

  const AttentionLayer& layer_;
  const Study& study_;
  Tensor q_, k_, v_;
  Tensor sinks_;  // [Hkv, G], or undefined
  std::pair<Tensor, Tensor> ffd_keys_;
  Tensor twilight_keys_;
};

}  // namespace
}  // namespace attest

/// What peer_loader.cpp looks up. Errors come back as text: exceptions of LibTorch's stay on this side.
extern "C" bool attest_torch_peer(const attest::AttentionLayer* layer, const attest::Study* study, const char* device,
                                  int threads, attest::TorchPeerResult* result, std::string* error) {
  try {
    const c10::InferenceMode inference;
    const std::string place = device;
    at::set_num_threads(threads);
    // The linker leaves out libraries that nothing refers to: LibTorch's CUDA part registers itself when it is opened.
    if (place != "cpu" && dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      *error = std::string("no CUDA in this LibTorch: ") + dlerror();
      return false;
    }
    at::globalContext().setFloat32MatmulPrecision("highest");  // some images make TF32 the default
    const auto start = std::chrono::steady_clock::now();
    attest::TorchPeer peer(*layer, *study, place);
    result->results = peer.run();  // its last copies to the host wait for the device
    result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return true;
  } catch (const std::exception& e) {
    *error = e.what();
    return false;
  }
}
