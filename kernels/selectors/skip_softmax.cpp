// skip_softmax: scores all keys, but skips the softmax and the values of tiles whose scores are far below the running
// maximum.
//
// Tiles of `tile` tokens count from 0 and are processed in order. The last one may be partial. Tile c belongs to
// sub-sequence c mod S, S = min(tiles, `splits`): a thread block of a kernel that splits the sequence knows only the
// maxima of its own tiles.
//   t_h(c)  largest exact score of the tile
//   r_h(c)  largest t_h of the earlier tiles of the sub-sequence, skipped ones included
// A tile is skipped iff it is not the first of its sub-sequence and t_h(c) - r_h(c) < -delta for every head h of the
// group (gqa = union) or for h alone (gqa = per_head). With unit = factor, delta = ln(L / factor), and nothing is
// skipped if factor > L. Exact keys and values are read. There is no estimate.
//
// Source: BLASST; TensorRT-LLM and FlashInfer (`threshold_scale_factor`, gqa = union), TensorRT Model Optimizer's
// emulation (gqa = per_head).
// Bytes per KV head: 2 D L + kept * 2 Dv.
#include "kernels/base/lane_sum.h"
#include "kernels/rank/entry_levels.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/skip_softmax_options.h"

namespace attest {
namespace {

class SkipSoftmax final : public SelectorWith<SkipSoftmaxOptions, make_cuda_skip_softmax> {
 public:
  explicit SkipSoftmax(OptionReader& reader) : SelectorWith(reader) {
    finish_with_settings_file(reader, setting_kind(), "unit=delta");
  }

  SettingKind setting_kind() const override { return by_factor_ ? SettingKind::factor : SettingKind::delta; }
  double resolve(const Setting& setting, std::int64_t visible) const override {
    return by_factor_ ? delta_of(setting.value, visible) : setting.value;
  }
  double natural_delta(double delta, const ScoreTransform& transform) const override {
    return by_factor_ ? Selector::natural_delta(delta, transform) : delta;
  }
  bool has_estimate() const override { return false; }
  std::string_view short_context(double delta, std::int64_t visible) const override {
    const bool by_length = tiles(visible) <= splits_, by_factor = by_factor_ && std::isinf(delta);
    return by_length || by_factor ? kKeepsEveryKey : std::string_view{};
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    for (int n = 0; n < head.num_queries; ++n) {
      const auto query = static_cast<std::size_t>(n);
      const std::int64_t visible = head.visible[query];
      std::vector<double> thresholds;
      for (double delta : grids[query].values) thresholds.push_back(-delta);
      std::vector<double> of_group;
      for (int r = n * head.group; r < (n + 1) * head.group; ++r) {
        std::vector<double> margins = tile_margins(exact.scores.row(r, visible));
        if (!union_) {
          keep(margins, thresholds, {out.levels.row(r), static_cast<std::size_t>(visible)});
        } else if (of_group.empty()) {
          of_group = std::move(margins);
        } else {
          for (std::size_t c = 0; c < margins.size(); ++c) of_group[c] = std::max(of_group[c], margins[c]);
        }
      }
      for (int r = n * head.group; union_ && r < (n + 1) * head.group; ++r)
        keep(of_group, thresholds, {out.levels.row(r), static_cast<std::size_t>(visible)});
      out.io[query] = bytes(head.shape(), visible);
    }
  }

 private:
  /// t(c) - r(c) of every tile; 0 for the first tile of each sub-sequence, so that it is never skipped.
  std::vector<double> tile_margins(std::span<const double> scores) const {
    const auto visible = static_cast<std::int64_t>(scores.size());
    const auto splits = static_cast<std::size_t>(sub_sequences(visible)), tile = static_cast<std::size_t>(tile_);
    std::vector<double> margins(static_cast<std::size_t>(tiles(visible))), running(splits);
    for (std::size_t c = 0; c < margins.size(); ++c) {
      const std::span<const double> own = scores.subspan(c * tile, std::min(tile, scores.size() - c * tile));
      const double maximum = lane_max(own.size(), own[0], [&](std::size_t t) { return own[t]; });
      double& before = running[c % splits];
      margins[c] = c < splits ? 0 : maximum - before;
      before = c < splits ? maximum : std::max(before, maximum);
    }
    return margins;
  }

  void keep(std::span<const double> margins, std::span<const double> thresholds, std::span<Level> levels) const {
    std::vector<Level> tile_levels(margins.size());
    threshold_levels(margins, thresholds, tile_levels);
    for (std::size_t j = 0; j < levels.size(); ++j) levels[j] = tile_levels[j / static_cast<std::size_t>(tile_)];
  }
};

}  // namespace

extern const SelectorInfo skip_softmax_info;
const SelectorInfo skip_softmax_info{
    .name = "skip_softmax",
    .summary = "skips softmax and values of tiles far below the running maximum",
    .io_bytes = "2D L + kept 2Dv",
    .source = "BLASST; TensorRT-LLM and FlashInfer threshold_scale_factor; Model Optimizer",
    .make = make_from_options<SkipSoftmax>};

}  // namespace attest
