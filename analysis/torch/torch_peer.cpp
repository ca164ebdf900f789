// Study of a layer in eager LibTorch, float32: a loop over queries and settings.
#include "analysis/torch/torch_peer.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <limits>
#include <map>

#include "analysis/torch/torch_module.h"
#include "analysis/torch/torch_peer_ops.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

using namespace torch_peer;

/// One query with its visible keys and values, and its exact attention.
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

/// What a method computes for one query, independent of the setting.
struct Scan {
  Tensor estimate;  // [Hkv, G, covered] estimated scores of the first `covered` tokens, or undefined
  Tensor refined;   // [Hkv, G, L] scores from which the output is computed; undefined: the exact ones
  Tensor values;    // [Hkv, L, Dv] values from which the output is computed; undefined: the exact ones
  Tensor order;     // scores that the rule ranks, of pages (quest) or tokens (twilight), or undefined
};

/// Collects [N, Hq, ...] arrays in the format of LayerResults.
class Arrays {
 public:
  Arrays(std::vector<MetricValues>& out, int64_t queries) : out_(out), queries_(queries) {}
  /// Stores values [Hq] or [Hkv, G] at (query, item); `items` is the length of the last axis (settings or lambdas).
  void put(const std::string& name, MetricAxes axes, int64_t query, int64_t item, int64_t items, const Tensor& values) {
    const Tensor host = values.reshape({-1}).to(at::kCPU, at::kFloat).contiguous();
    const int64_t heads = host.numel();
    auto [slot, fresh] = index_.try_emplace(name, out_.size());
    if (fresh)
      out_.push_back(
          {name, axes, std::vector<float>(static_cast<size_t>(queries_ * heads * items), static_cast<float>(kNaN))});
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
      score_arrays.put("top1_top2_gap", MetricAxes::query_head, n, 0, 1, top_gap(query.scores));
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
      out.order = page_scores(query.q, query.k, query.scale);
      out.estimate = out.order.repeat_interleave(kPage, 2).slice(2, 0, query.length);
    } else if (name == "kivi") {
      const int64_t keys = (query.length - 1) / 128 * 128, values = std::max<int64_t>(0, query.length - 129);
      const Tensor k = at::cat({kivi_groups(query.k.slice(1, 0, keys), 32, true), query.k.slice(1, keys)}, 1);
      out.estimate = out.refined = dot(query.q, k, query.scale);
      out.values = at::cat({kivi_groups(query.v.slice(1, 0, values), 32, false), query.v.slice(1, values)}, 1);
    } else if (name == "twilight") {
      out.estimate = dot(query.q, twilight_keys_.slice(1, 0, query.length), query.scale);
      const int64_t pages = (query.length + kPage - 1) / kPage, n = std::min<int64_t>(pages, 8192 / kPage);
      const Tensor base = best_pages(page_scores(query.q, query.k, query.scale), n, query.length);
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
      if (blocks > 0) {
        const Tensor best = block_max(scan.estimate, kBlock);
        const Tensor peak = at::maximum(best.select(2, 0), best.select(2, blocks - 1)).unsqueeze(-1);
        const Tensor kept_blocks = (best >= peak - setting).any(1, true).expand_as(best);
        kept.mask.slice(2, 0, covered).copy_(kept_blocks.repeat_interleave(kBlock, 2));
      }
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
    const bool none = error.size(-1) == 0;
    const Tensor mean = error.mean(-1);  // NaN of no token, where the others warn or throw
    put("scan_error_mean", mean);
    put("scan_error_std", none ? mean : error.std(-1, false));
    put("scan_error_max", none ? mean : error.abs().amax(-1));
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
    put("dropped_gap", at::where(dropped == -kInf, kNaN, query.max.squeeze(-1) - dropped));
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

/// Entry point that peer_loader.cpp looks up.
extern "C" bool attest_torch_peer(const attest::AttentionLayer* layer, const attest::Study* study, const char* device,
                                  int threads, attest::TorchPeerResult* result, std::string* error) {
  return attest::has_ended_well(*error, [&] {
    const c10::InferenceMode inference;
    const std::string place = device;
    at::set_num_threads(threads);
    if (place != "cpu") attest::load_torch_cuda();
    at::globalContext().setFloat32MatmulPrecision("highest");  // TF32 is the default in some environments
    const auto start = std::chrono::steady_clock::now();
    attest::TorchPeer peer(*layer, *study, place);
    result->results = peer.run();  // synchronous: its last copies to the host wait for the device
    result->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
}
