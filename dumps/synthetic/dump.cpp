// Checks the options of a synthetic dump, places its spans, and streams its slabs to the writer.
#include "dumps/synthetic/dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/ordered_pipeline.h"
#include "dumps/base/output_place.h"
#include "dumps/format/dump_writer.h"
#include "dumps/synthetic/counter_random.h"
#include "dumps/synthetic/heads.h"
#include "dumps/synthetic/layer.h"
#include "dumps/synthetic/positions.h"

namespace attest {
namespace {

constexpr std::int64_t kSlabBytes = std::int64_t{1} << 20;

enum class Tensor { q, k, v };

/// Rows first .. first+count-1 of one tensor (for k and v: of one KV head).
struct Slab {
  int sample = 0, layer = 0;
  Tensor tensor = Tensor::q;
  int kv_head = 0;
  std::int64_t first = 0, count = 0;
  bool opens_layer = false, opens_sample = false;
};

/// Numbers all slabs of a dump in the order in which they are written.
class SlabPlan {
 public:
  explicit SlabPlan(const SyntheticOptions& options) : options_(options) {
    const AttentionShape& shape = options.shape;
    q_ = split(options.num_queries, std::int64_t{shape.num_query_heads} * shape.head_dim);
    k_ = split(options.num_tokens, shape.head_dim);
    v_ = split(options.num_tokens, shape.value_dim);
    slabs_per_layer_ = q_.slabs + shape.num_kv_heads * (k_.slabs + v_.slabs);
  }

  std::int64_t size() const { return slabs_per_layer_ * options_.num_layers * options_.num_samples; }

  Slab operator[](std::int64_t index) const {
    const std::int64_t layer = index / slabs_per_layer_;
    std::int64_t i = index % slabs_per_layer_;
    Slab slab;
    slab.sample = static_cast<int>(layer / options_.num_layers);
    slab.layer = static_cast<int>(layer % options_.num_layers);
    slab.opens_layer = i == 0;
    slab.opens_sample = slab.opens_layer && slab.layer == 0;
    if (i < q_.slabs) return rows(slab, Tensor::q, q_, i);
    i -= q_.slabs;
    slab.kv_head = static_cast<int>(i / (k_.slabs + v_.slabs));
    i %= k_.slabs + v_.slabs;
    return i < k_.slabs ? rows(slab, Tensor::k, k_, i) : rows(slab, Tensor::v, v_, i - k_.slabs);
  }

 private:
  struct Split {
    std::int64_t total = 0, rows = 0, slabs = 0;
  };
  Split split(std::int64_t total, std::int64_t elements_per_row) const {
    const auto row_bytes = elements_per_row * static_cast<std::int64_t>(size_of(options_.element_type));
    const std::int64_t rows = std::clamp<std::int64_t>(kSlabBytes / row_bytes, 1, total);
    return {total, rows, (total + rows - 1) / rows};
  }
  static Slab rows(Slab slab, Tensor tensor, const Split& split, std::int64_t i) {
    slab.tensor = tensor;
    slab.first = i * split.rows;
    slab.count = std::min(split.rows, split.total - slab.first);
    return slab;
  }

  const SyntheticOptions& options_;
  Split q_, k_, v_;
  std::int64_t slabs_per_layer_ = 0;
};

std::int64_t bytes_of(const SyntheticOptions& options, const Slab& slab) {
  const AttentionShape& shape = options.shape;
  const std::int64_t width = slab.tensor == Tensor::q   ? std::int64_t{shape.num_query_heads} * shape.head_dim
                             : slab.tensor == Tensor::k ? shape.head_dim
                                                        : shape.value_dim;
  return slab.count * width * static_cast<std::int64_t>(size_of(options.element_type));
}

/// Bytes of all q, k and v. The number may exceed any integer type.
double bytes_of(const SyntheticOptions& options) {
  const AttentionShape& shape = options.shape;
  const double q = static_cast<double>(options.num_queries) * shape.num_query_heads * shape.head_dim;
  const double kv = static_cast<double>(options.num_tokens) * shape.num_kv_heads * (shape.head_dim + shape.value_dim);
  return (q + kv) * static_cast<double>(size_of(options.element_type)) * options.num_layers * options.num_samples;
}

SampleInfo sample_info(const SyntheticOptions& options, int sample) {
  SampleInfo info;
  info.name = fmt::format("synthetic-{:04}", sample);
  info.task = "synthetic/" + options.profile;
  info.num_tokens = options.num_tokens;
  for (std::int64_t p = options.num_tokens - options.num_queries; p < options.num_tokens; ++p)
    info.query_positions.push_back(p);
  info.spans = synthetic_spans(options, sample);
  for (std::size_t i = 0; i < info.spans.size(); ++i) info.span_labels.push_back(fmt::format("planted-{}", i));
  return info;
}

void require(bool valid, const std::string& sentence) {
  if (!valid) throw UsageError("synthetic dump: " + sentence);
}

}  // namespace

void check(const SyntheticOptions& o) {
  const auto in_range = [&](const char* option, std::int64_t value, std::int64_t low, std::int64_t high) {
    require(low <= value && value <= high, fmt::format("{} is {}, expected {} to {}", option, value, low, high));
  };
  in_range("query heads", o.shape.num_query_heads, 1, kMaxCount);
  in_range("KV heads", o.shape.num_kv_heads, 1, kMaxCount);
  require(
      o.shape.num_query_heads % o.shape.num_kv_heads == 0,
      fmt::format("{} query heads are not a multiple of {} KV heads", o.shape.num_query_heads, o.shape.num_kv_heads));
  in_range("head dim", o.shape.head_dim, 1, kMaxCount);
  in_range("value dim", o.shape.value_dim, 1, kMaxCount);
  in_range("layers", o.num_layers, 1, kMaxCount);
  in_range("samples", o.num_samples, 1, kMaxCount);
  in_range("tokens", o.num_tokens, 1, kMaxTokens);
  in_range("queries", o.num_queries, 1, o.num_tokens);
  in_range("sliding window", o.sliding_window, 0, kMaxWindow);
  in_range("global-every", o.global_every, 0, kMaxCount);
  in_range("spans", o.num_spans, 0, kMaxSpans);
  in_range("span tokens", o.span_tokens, 1, kMaxCount);
  in_range("sink tokens", o.sink_tokens, 0, kMaxCount);
  require(o.softmax_scale == 0 || (std::isfinite(o.softmax_scale) && o.softmax_scale > 0),
          fmt::format("scale is {}, expected a positive number", o.softmax_scale));
  require(o.logit_softcap == 0 || (std::isfinite(o.logit_softcap) && o.logit_softcap > 0),
          fmt::format("softcap is {}, expected a positive number", o.logit_softcap));
  profile_kinds(o.profile);
}

std::int64_t sliding_window_of(const SyntheticOptions& options, int layer) {
  const bool global = options.global_every > 0 && layer % options.global_every == options.global_every - 1;
  return global ? 0 : options.sliding_window;
}

std::vector<TokenSpan> synthetic_spans(const SyntheticOptions& options, int sample) {
  const std::int64_t begin = options.sink_tokens, end = options.num_tokens - options.num_queries;
  std::vector<TokenSpan> spans;
  if (options.num_spans == 0 || end <= begin) return spans;
  // The context is divided into equal parts. Each has one span, of at most half its length, at a random place.
  const std::int64_t part = (end - begin) / options.num_spans;
  const std::int64_t length = std::min(options.span_tokens, part / 2);
  if (length == 0) return spans;
  RandomStream random(random_key({options.seed, kSpanStream, static_cast<std::uint64_t>(sample)}));
  for (int i = 0; i < options.num_spans; ++i) {
    const std::int64_t first =
        begin + i * part + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(part - length + 1)));
    spans.push_back({first, first + length});
  }
  return spans;
}

DumpInfo synthetic_header(const SyntheticOptions& options) {
  Json source{
      {"generator", "attest synth"}, {"profile", options.profile},         {"seed", options.seed},
      {"spans", options.num_spans},  {"span_tokens", options.span_tokens}, {"sink_tokens", options.sink_tokens}};
  for (const HeadKind kind : profile_kinds(options.profile)) source["head_kinds"].push_back(name_of(kind));
  source["head_kind_of"] = "head_kinds[(layer + query_head) % length]";

  DumpInfo header;
  header.model = fmt::format("synthetic/{}", options.profile);
  header.num_layers = options.num_layers;
  header.shape = options.shape;
  header.softmax_scale = options.softmax_scale;
  header.logit_softcap = options.logit_softcap;
  header.rope = Json{{"rope_theta", PositionFeatures::kRopeTheta}, {"rope_type", "default"}}.dump();
  header.source = source.dump();
  return header;
}

void write_synthetic_dump(const SyntheticOptions& options, const std::string& path, bool overwrite, int threads,
                          const DumpProgress& progress) {
  check(options);
  require_free_space(path, bytes_of(options));  // first: what follows takes time that grows with the tokens
  const PositionFeatures positions(options.shape.head_dim, options.num_tokens);
  std::map<std::int64_t, double> local_log_sums;  // by sliding window
  for (int layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t window = sliding_window_of(options, layer);
    if (local_log_sums.contains(window)) continue;
    const std::int64_t visible = window > 0 ? std::min(window, options.num_tokens) : options.num_tokens;
    local_log_sums[window] = positions.log_sum(visible, kPositionHeight);
  }
  const SlabPlan slabs(options);
  const auto total = static_cast<std::int64_t>(bytes_of(options));
  std::int64_t done = 0;
  DumpWriter writer(path, synthetic_header(options), {.overwrite = overwrite});
  using Bytes = std::vector<std::byte>;
  run_ordered<Bytes>(
      slabs.size(), threads,
      [&](std::int64_t job, Bytes& bytes) {
        const Slab slab = slabs[job];
        bytes.resize(static_cast<std::size_t>(bytes_of(options, slab)));
        if (slab.tensor == Tensor::q) {
          const double local_log_sum = local_log_sums.at(sliding_window_of(options, slab.layer));
          SyntheticQueries(options, positions, slab.sample, slab.layer, local_log_sum)
              .fill_q(slab.first, slab.count, bytes.data());
          return;
        }
        const SyntheticKvHead head(options, positions, slab.sample, slab.layer, slab.kv_head);
        slab.tensor == Tensor::k ? head.fill_k(slab.first, slab.count, bytes.data())
                                 : head.fill_v(slab.first, slab.count, bytes.data());
      },
      [&](std::int64_t job, Bytes& bytes) {
        const Slab slab = slabs[job];
        if (slab.opens_sample) writer.begin_sample(sample_info(options, slab.sample));
        if (slab.opens_layer)
          writer.begin_layer(slab.layer, {.element_type = options.element_type,
                                          .sliding_window = sliding_window_of(options, slab.layer)});
        switch (slab.tensor) {
          case Tensor::q:
            writer.write_q(slab.first, slab.count, bytes.data());
            break;
          case Tensor::k:
            writer.write_k(slab.kv_head, slab.first, slab.count, bytes.data());
            break;
          case Tensor::v:
            writer.write_v(slab.kv_head, slab.first, slab.count, bytes.data());
            break;
        }
        done += static_cast<std::int64_t>(bytes.size());
        if (progress) progress(done, total);
      });
  writer.finish();
}

}  // namespace attest
