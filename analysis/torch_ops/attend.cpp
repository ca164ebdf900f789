// Runs every KV head of every sequence through the selector, as the study of a layer does.
#include "analysis/torch_ops/attend.h"

#include <algorithm>
#include <vector>

#include "analysis/layer/kv_head_batches.h"
#include "analysis/layer/kv_head_buffers.h"
#include "analysis/layer/layer_amax.h"
#include "analysis/layer/overflow_check.h"
#include "dumps/base/error.h"
#include "dumps/base/parallel_for.h"
#include "kernels/attention/scores.h"
#include "kernels/kv_formats/amax.h"
#include "kernels/selectors/selection_outputs.h"

namespace attest {
namespace {

/// Tokens [first, last) of one head as float32.
class HeadTokens {
 public:
  const float* load(const HeadsView& view, ElementType type, std::int64_t sequence, std::int64_t head,
                    std::int64_t first, std::int64_t last, int channels) {
    const auto element = static_cast<std::int64_t>(size_of(type));
    const std::byte* source =
        view.data + (sequence * view.batch_stride + head * view.head_stride + first * view.token_stride) * element;
    const bool contiguous = view.token_stride == channels || last - first == 1;
    if (contiguous && type == ElementType::float32) return reinterpret_cast<const float*>(source);
    const auto row = static_cast<std::size_t>(channels), tokens = static_cast<std::size_t>(last - first);
    converted_.resize(tokens * row);
    if (contiguous) {
      convert_to_float(type, source, tokens * row, converted_.data());
    } else {
      for (std::size_t t = 0; t < tokens; ++t)
        convert_to_float(type, source + static_cast<std::int64_t>(t) * view.token_stride * element, row,
                         converted_.data() + t * row);
    }
    return converted_.data();
  }

 private:
  std::vector<float> converted_;
};

/// Buffers that one thread reuses between tasks.
struct Workspace {
  std::int64_t sequence = -1;
  int kv_head = -1;
  HeadTokens key_buffer, value_buffer;
  const float *keys = nullptr, *values = nullptr;  ///< from the first token that any query sees
  std::vector<float> queries;                      ///< [num_queries, G, D]
  RankedScores exact;
  Selection selection;
  std::vector<SettingOutputs> outputs;
  std::vector<float> row;  ///< [Dv]
};

class Attend {
 public:
  explicit Attend(const AttendCall& call)
      : call_(call),
        layer_(call.layer),
        batches_(kv_head_batches(call.layer)),
        workspaces_(static_cast<std::size_t>(call.threads)) {}

  void run() {
    if (call_.selector->needs_amax()) find_amax();
    const std::size_t tasks = batches_.size() * static_cast<std::size_t>(call_.batch);
    parallel_for(call_.threads, tasks, [&](int worker, std::size_t i) {
      const auto sequence = static_cast<std::int64_t>(i / batches_.size());
      run_batch(sequence, batches_[i % batches_.size()], workspaces_[static_cast<std::size_t>(worker)]);
    });
  }

 private:
  /// Of all tokens of each sequence.
  void find_amax() {
    const auto heads = static_cast<std::size_t>(layer_.shape.num_kv_heads);
    const LayerAmax none{std::vector<float>(heads), std::vector<float>(heads)};
    amax_.assign(static_cast<std::size_t>(call_.batch), none);
    parallel_for(call_.threads, amax_.size() * heads * 2, [&](int, std::size_t i) {
      const std::size_t sequence = i / (2 * heads), head = i % heads;
      const bool keys = i / heads % 2 == 0;
      LayerAmax& amax = amax_[sequence];
      (keys ? amax.keys : amax.values)[head] =
          amax_of(keys ? call_.k : call_.v, keys ? layer_.shape.head_dim : layer_.shape.value_dim,
                  static_cast<std::int64_t>(sequence), static_cast<std::int64_t>(head));
    });
  }

  float amax_of(const HeadsView& view, int channels, std::int64_t sequence, std::int64_t head) const {
    const std::size_t element = size_of(layer_.element_type);
    float largest = 0;
    for (std::int64_t t = 0; t < layer_.num_tokens; ++t) {
      const std::int64_t at = sequence * view.batch_stride + head * view.head_stride + t * view.token_stride;
      largest =
          std::max(largest, max_magnitude(layer_.element_type, view.data + at * static_cast<std::int64_t>(element),
                                          static_cast<std::size_t>(channels)));
    }
    return largest;
  }

  void run_batch(std::int64_t sequence, const KvHeadBatch& batch, Workspace& w) const {
    KvHead head = load(sequence, batch, w);
    if (!amax_.empty()) {
      head.key_amax = amax_[static_cast<std::size_t>(sequence)].keys;
      head.value_amax = amax_[static_cast<std::size_t>(sequence)].values;
    }
    try {
      attend_head(batch, head, w);
    } catch (const LayerOverflow& overflow) {
      refuse_overflow(overflow.where, *call_.selector, layer_, call_.batch > 1 ? sequence : -1);
    }
    store(sequence, batch, head, w);
  }

  KvHead load(std::int64_t sequence, const KvHeadBatch& batch, Workspace& w) const {
    const AttentionShape& shape = layer_.shape;
    const std::int64_t first = layer_.first_visible_key(layer_.query_positions.front());
    if (w.sequence != sequence || w.kv_head != batch.kv_head) {
      w.keys = w.key_buffer.load(call_.k, layer_.element_type, sequence, batch.kv_head, first, layer_.num_tokens,
                                 shape.head_dim);
      w.values = w.value_buffer.load(call_.v, layer_.element_type, sequence, batch.kv_head, first, layer_.num_tokens,
                                     shape.value_dim);
      w.sequence = sequence;
      w.kv_head = batch.kv_head;
    }
    const auto dim = static_cast<std::size_t>(shape.head_dim), group = static_cast<std::size_t>(shape.group());
    const std::size_t queries = batch.visible.size();
    w.queries.resize(queries * group * dim);
    HeadTokens buffer;
    for (std::size_t h = 0; h < group; ++h) {
      const float* q = buffer.load(call_.q, layer_.element_type, sequence,
                                   batch.kv_head * shape.group() + static_cast<std::int64_t>(h), batch.first_query,
                                   batch.first_query + static_cast<std::int64_t>(queries), shape.head_dim);
      for (std::size_t n = 0; n < queries; ++n) std::copy_n(q + n * dim, dim, w.queries.data() + (n * group + h) * dim);
    }
    return kv_head_of(layer_, batch, w.keys + (batch.first_key - first) * shape.head_dim,
                      w.values + (batch.first_key - first) * shape.value_dim, w.queries.data(), nullptr);
  }

  void attend_head(const KvHeadBatch& batch, const KvHead& head, Workspace& w) const {
    const Selector& selector = *call_.selector;
    scores(head.queries, head.rows(), head.head_dim, head.keys, head.length, head.transform, w.exact.scores);
    check_scores(batch, head, w.exact.scores, head.visible, -kLargestScore, {.step = OverflowStep::score});
    w.exact.ranked = false;
    if (selector.needs_exact_order() && !selector.is_dense(head.layer, head.kv_head))
      w.exact.rank(head.visible, head.group);
    select_checked(batch, head, w.exact, selector, ascending_grids(selector, head, {&call_.setting, 1}), 0,
                   w.selection);
    selection_outputs(head, w.exact.scores, w.selection, 1, w.outputs);
    check_outputs(batch, head, w.outputs, {.step = OverflowStep::output});
  }

  void store(std::int64_t sequence, const KvHeadBatch& batch, const KvHead& head, Workspace& w) const {
    const std::int64_t queries = layer_.num_queries();
    for (int r = 0; r < head.rows(); ++r) {
      const std::int64_t query_head =
          sequence * layer_.shape.num_query_heads + batch.kv_head * head.group + r % head.group;
      const std::int64_t place = query_head * queries + batch.first_query + r / head.group;
      const SettingOutputs& of_row = w.outputs[static_cast<std::size_t>(r)];
      w.row.assign(of_row.output.begin(), of_row.output.end());
      convert_from_float(layer_.element_type, w.row.data(), w.row.size(),
                         call_.out + static_cast<std::size_t>(place) * w.row.size() * size_of(layer_.element_type));
      call_.lse[place] = static_cast<float>(of_row.lse[0]);
    }
    for (int n = 0; n < head.num_queries; ++n)
      call_.kept[(sequence * layer_.shape.num_kv_heads + batch.kv_head) * queries + batch.first_query + n] =
          tokens_kept(head, w.selection, n, 1)[0];
  }

  const AttendCall& call_;
  const AttentionLayer& layer_;
  const std::vector<KvHeadBatch> batches_;
  std::vector<Workspace> workspaces_;
  std::vector<LayerAmax> amax_;  ///< [batch]; empty: the selector does not ask
};

}  // namespace

void check_supported(const Selector& selector, const AttentionLayer& layer) {
  selector.check(layer.shape.kv());
  selector.check_layer(layer.layer, layer.shape.num_kv_heads);
}

void attend(const AttendCall& call) {
  check_supported(*call.selector, call.layer);
  Attend(call).run();
}

}  // namespace attest
