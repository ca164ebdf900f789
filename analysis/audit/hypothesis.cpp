// The hypotheses, and what they predict.
#include "analysis/audit/hypothesis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "analysis/audit/half_sums.h"
#include "analysis/audit/rope.h"

namespace attest {
namespace {

constexpr int kMaxTurned = 8;  ///< positions

TokenRange visible(const AttentionLayer& layer, std::int64_t position) {
  return {layer.first_visible_key(position), position + 1};
}

/// Within the layer, with at least one token.
TokenRange clipped(const AttentionLayer& layer, TokenRange tokens) {
  tokens.begin = std::clamp<std::int64_t>(tokens.begin, 0, layer.num_tokens - 1);
  tokens.end = std::clamp<std::int64_t>(tokens.end, tokens.begin + 1, layer.num_tokens);
  return tokens;
}

class List {
 public:
  List(const AuditInput& input, const KvStorages& storages) : input_(input), layer_(input.layer), storages_(storages) {}

  std::vector<Hypothesis> all() {
    windows();  // before masks: of two that predict the same, the first is named first
    masks();
    if (!layer_.sinks.empty()) add("sinks", "learned sinks are missing").sinks = false;
    if (layer_.logit_softcap > 0)
      add("softcap", fmt::format("the soft-cap of {:g} is missing", layer_.logit_softcap)).transform.softcap = 0;
    scales();
    if (layer_.shape.group() > 1 && layer_.shape.num_kv_heads > 1)
      add("gqa", "query head h reads KV head h mod Hkv instead of h / G").heads_modulo = true;
    positions();
    return std::move(list_);
  }

 private:
  Hypothesis& add(std::string kind, std::string text) {
    Hypothesis& made = list_.emplace_back(plain_hypothesis(input_, storages_));
    made.kind = std::move(kind);
    made.text = std::move(text);
    return made;
  }

  template <class Tokens>
  void add_range(const char* kind, const std::string& text, Tokens tokens) {
    add(kind, text).tokens = [this_layer = &layer_, tokens](std::int64_t position) {
      return clipped(*this_layer, tokens(*this_layer, position));
    };
  }

  void masks() {
    add_range("mask", "the causal mask is off by one: a row does not see its own key",
              [](const AttentionLayer& layer, std::int64_t p) {
                return TokenRange{layer.first_visible_key(p), p};
              });
    add_range("mask", "the causal mask is off by one: a row sees the next key, too",
              [](const AttentionLayer& layer, std::int64_t p) {
                return TokenRange{layer.first_visible_key(p), p + 2};
              });
    add_range("mask", "there is no mask: a row sees every key of the sample",
              [](const AttentionLayer& layer, std::int64_t) {
                return TokenRange{0, layer.num_tokens};
              });
    if (input_.prompt_length && *input_.prompt_length < layer_.num_tokens)
      add_range("mask", "there is no mask in the prompt: its rows see every key of it",
                [length = *input_.prompt_length](const AttentionLayer& layer, std::int64_t p) {
                  return p < length ? TokenRange{0, length} : visible(layer, p);
                });
  }

  void windows() {
    const std::int64_t own = layer_.sliding_window;
    if (own > 0) {
      add_range("window", fmt::format("the sliding window of {} tokens is missing", own),
                [](const AttentionLayer&, std::int64_t p) {
                  return TokenRange{0, p + 1};
                });
      for (const std::int64_t window : {own - 1, own + 1})
        if (window > 0)
          list_.push_back(
              window_hypothesis(input_, storages_, window,
                                fmt::format("the sliding window is off by one: {} tokens instead of {}", window, own)));
    }
    for (const std::int64_t window : std::set(input_.other_windows.begin(), input_.other_windows.end()))
      if (window > 0 && std::abs(window - own) > (own > 0 ? 1 : 0))
        list_.push_back(
            window_hypothesis(input_, storages_, window,
                              fmt::format("a sliding window of {} tokens, that of other layers, instead of {}", window,
                                          own > 0 ? std::to_string(own) : "none")));
  }

  void scales() {
    const double scale = layer_.softmax_scale, dim = layer_.shape.head_dim, value_dim = layer_.shape.value_dim;
    const std::pair<const char*, double> known[] = {{"1/sqrt(head_dim)", 1 / std::sqrt(dim)},
                                                    {"1/sqrt(value_dim)", 1 / std::sqrt(value_dim)},
                                                    {"none", 1},
                                                    {"1/head_dim", 1 / dim},
                                                    {"applied twice", scale * scale},
                                                    {"its square root", std::sqrt(scale)},
                                                    {"times log2 e", scale * std::numbers::log2e},
                                                    {"times ln 2", scale * std::numbers::ln2}};
    std::vector<double> taken{scale};
    for (const auto& [name, value] : known) {
      const bool is_new =
          std::ranges::none_of(taken, [&](double other) { return std::fabs(value / other - 1) < 1e-6; });
      if (!is_new) continue;
      taken.push_back(value);
      list_.push_back(
          scale_hypothesis(input_, storages_, value,
                           fmt::format("another softmax scale: {:.6g} ({}) instead of {:.6g}", value, name, scale)));
    }
  }

  void positions() {
    for (const int shift : {-1, 1}) {
      const char* which = shift < 0 ? "earlier" : "later";
      add_range("position", fmt::format("the cache is shifted: a row sees keys and values one token {}", which),
                [shift](const AttentionLayer& layer, std::int64_t p) {
                  return TokenRange{layer.first_visible_key(p) + shift, p + 1 + shift};
                });
      add("values", fmt::format("values are shifted against their keys: each is that of one token {}", which))
          .value_shift = shift;
    }
    std::optional<Rope> rope = rope_of_layer(input_.rope, layer_.layer, layer_.shape.head_dim);
    if (!rope) return;
    for (const bool neighbours : {false, true})
      for (int by = -kMaxTurned; by <= kMaxTurned; ++by) {
        if (by == 0) continue;
        rope->neighbours = neighbours;
        add("position", fmt::format("queries are rotated {} position{} {} than their keys{}", std::abs(by),
                                    std::abs(by) == 1 ? "" : "s", by < 0 ? "less" : "more",
                                    neighbours ? " (pairs of neighbouring channels)" : ""))
            .turn = [rope = *rope, by](std::int64_t, std::span<float> query) { rope.turn(by, query); };
      }
  }

  const AuditInput& input_;
  const AttentionLayer& layer_;
  const KvStorages& storages_;
  std::vector<Hypothesis> list_;
};

}  // namespace

Hypothesis plain_hypothesis(const AuditInput& input, const KvStorages& storages) {
  return {.kind = "cache",
          .text = storages_text(storages),
          .storages = storages,
          .transform = {input.layer.softmax_scale, input.layer.logit_softcap}};
}

std::vector<Hypothesis> structural_hypotheses(const AuditInput& input, const KvStorages& storages) {
  return List(input, storages).all();
}

Hypothesis window_hypothesis(const AuditInput& input, const KvStorages& storages, std::int64_t window,
                             const std::string& text) {
  Hypothesis made = plain_hypothesis(input, storages);
  made.kind = "window";
  made.text = text;
  made.tokens = [window](std::int64_t position) {
    return TokenRange{std::max<std::int64_t>(0, position - window + 1), position + 1};
  };
  return made;
}

Hypothesis scale_hypothesis(const AuditInput& input, const KvStorages& storages, double scale,
                            const std::string& text) {
  Hypothesis made = plain_hypothesis(input, storages);
  made.kind = "scale";
  made.text = text;
  made.transform.scale = scale;
  return made;
}

std::vector<RowPrediction> predict(const AuditInput& input, const Hypothesis& hypothesis,
                                   std::span<const RowPlace> rows, const std::atomic<bool>* stop) {
  const AttentionLayer& layer = input.layer;
  std::map<int, std::vector<std::size_t>> by_kv_head;
  for (std::size_t i = 0; i < rows.size(); ++i)
    by_kv_head[hypothesis.heads_modulo ? rows[i].head % layer.shape.num_kv_heads : rows[i].head / layer.shape.group()]
        .push_back(i);
  std::vector<RowPrediction> predictions(rows.size());
  for (const auto& [kv_head, indices] : by_kv_head) {
    std::vector<RowModel> models;
    for (const std::size_t i : indices) {
      const std::int64_t position = layer.query_positions[static_cast<std::size_t>(rows[i].query)];
      RowModel model{.query = input.query(rows[i].query, rows[i].head),
                     .tokens = hypothesis.tokens ? hypothesis.tokens(position) : visible(layer, position),
                     .sink = {}};
      if (hypothesis.turn) hypothesis.turn(position, model.query);
      model.query = read_query(hypothesis.storages.keys, layer, model.query);
      if (hypothesis.sinks && !layer.sinks.empty()) model.sink = layer.sinks[static_cast<std::size_t>(rows[i].head)];
      models.push_back(std::move(model));
    }
    const StoredHead head(layer, kv_head, hypothesis.storages);
    std::vector<RowPrediction> of_head = attend_rows(head, models, hypothesis.transform, hypothesis.value_shift, stop);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (hypothesis.half_sum_threads > 0)
        of_head[i].output = half_sum_output(head, models[i], hypothesis.transform,
                                            half_sum_part(models[i].tokens.end, hypothesis.half_sum_threads));
      predictions[indices[i]] = std::move(of_head[i]);
    }
  }
  return predictions;
}

}  // namespace attest
