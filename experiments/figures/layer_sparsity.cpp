// Figure "Layer-wise sparsity": the share of blocks and of tokens that FFD skips in each layer, at delta 5 and 7.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "experiments/figures/figures.h"
#include "experiments/study_view/paper_settings.h"
#include "experiments/study_view/selector_choice.h"
#include "experiments/study_view/words.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace layer_sparsity_figure {

/// Share skipped: the mean over all cells, and quantiles over heads (of each head's mean over samples and queries).
struct Skipped {
  double mean = kNaN, p5 = kNaN, p95 = kNaN;
};

Skipped skipped(std::vector<SampleCells> kept) {
  for (SampleCells& sample : kept) sample.dump = 0;  // a head's mean is over all samples, whichever dump has them
  std::vector<double> heads;
  for (const Pair& pair : pair_values(kept)) heads.push_back(1 - pair.value);
  return {1 - describe(kept).mean, quantile(heads, 0.05), quantile(heads, 0.95)};
}

struct Layer {
  int number = 0;
  Skipped blocks, tokens;
  std::int64_t cells = 0;
};

/// One selector at one delta.
struct Curve {
  const PooledSelector* selector = nullptr;
  double delta = 0;
  std::vector<Layer> layers = {};
  double mean_blocks = kNaN, mean_tokens = kNaN;

  std::string gqa() const { return selector->option("gqa"); }
  std::string name() const { return fmt::format("{} delta {:g}", curve_name(selector->group.label), delta); }
  std::string title() const {
    return fmt::format("δ = {:g}, {}: {:.0f} % blocks, {:.0f} % tokens", delta, gqa(), 100 * mean_blocks,
                       100 * mean_tokens);
  }
};

bool has_delta(const PooledSelector& selector) {
  return std::ranges::any_of(kPaperDeltas, [&](double delta) { return index_of(selector.group, delta).has_value(); });
}

std::vector<Curve> curves_of(const ModelStudy& study) {
  std::vector<Curve> curves;
  for (const PooledSelector* selector : gqa_policies(study, has_delta)) {
    const std::set<int> dense = study.dense_layers({selector->group.label});
    const auto blocks = study.cells(*selector, "block_keep_ratio", dense),
               tokens = study.cells(*selector, "keep_ratio", dense);
    for (double delta : kPaperDeltas) {
      const std::optional<std::size_t> s = index_of(selector->group, delta);
      if (!s || describe(blocks[*s]).count == 0) continue;
      Curve curve{.selector = selector, .delta = delta};
      curve.mean_blocks = 1 - describe(blocks[*s]).mean;
      curve.mean_tokens = 1 - describe(tokens.at(*s)).mean;
      for (int layer : layers_of(blocks[*s])) {
        const auto layer_blocks = of_layer(blocks[*s], layer), layer_tokens = of_layer(tokens[*s], layer);
        curve.layers.push_back({layer, skipped(layer_blocks), skipped(layer_tokens), describe(layer_blocks).count});
      }
      curves.push_back(std::move(curve));
    }
  }
  return curves;
}

Table table_of(const std::vector<Curve>& curves) {
  struct Row {
    const Curve* curve;
    const Layer* layer;
  };
  std::vector<Row> rows;
  for (const Curve& curve : curves)
    for (const Layer& layer : curve.layers) rows.push_back({&curve, &layer});

  return make_table<Row>(rows,
                         {{{kCurveColumn, kText}, [](const Row& r) { return r.curve->name(); }},
                          {{"label", kText}, [](const Row& r) { return display_name(r.curve->selector->group.label); }},
                          {{"gqa", kText}, [](const Row& r) { return display_name(r.curve->gqa()); }},
                          {{"delta"}, [](const Row& r) { return r.curve->delta; }},
                          {{"layer"}, [](const Row& r) { return static_cast<double>(r.layer->number); }},
                          {{"blocks_skipped_mean"}, [](const Row& r) { return r.layer->blocks.mean; }},
                          {{"blocks_skipped_p5"}, [](const Row& r) { return r.layer->blocks.p5; }},
                          {{"blocks_skipped_p95"}, [](const Row& r) { return r.layer->blocks.p95; }},
                          {{"tokens_skipped_mean"}, [](const Row& r) { return r.layer->tokens.mean; }},
                          {{"tokens_skipped_p5"}, [](const Row& r) { return r.layer->tokens.p5; }},
                          {{"tokens_skipped_p95"}, [](const Row& r) { return r.layer->tokens.p95; }},
                          {{"cells"}, [](const Row& r) { return static_cast<double>(r.layer->cells); }}});
}

/// One row of two panels (blocks, tokens) per GQA policy. In a common panel the bands of the two policies would hide
/// each other.
std::vector<Panel> panels_of(const std::vector<Curve>& curves) {
  std::vector<const PooledSelector*> selectors;
  for (const Curve& curve : curves)
    if (std::ranges::count(selectors, curve.selector) == 0) selectors.push_back(curve.selector);

  std::vector<Panel> panels;
  for (const PooledSelector* selector : selectors) {
    for (const std::string what : {"blocks", "tokens"}) {
      Panel panel{.title = panel_title(panels.size(), what + ", " + selector->option("gqa")),
                  .x = {.label = "layer", .whole_numbers = true},
                  .y = {.label = "skipped (%)", .factor = 100, .low = 0, .high = 100},
                  .series = {},
                  .show_x = selector == selectors.back(),
                  .show_y = what == "blocks"};
      for (std::size_t i = 0; i < curves.size(); ++i)
        if (curves[i].selector == selector)
          panel.series.push_back({.curve = curves[i].name(),
                                  .title = curves[i].title(),
                                  .x = "layer",
                                  .y = what + "_skipped_mean",
                                  .bands = {{what + "_skipped_p5", what + "_skipped_p95", 0.18}},
                                  .style = line_style(i)});
      panels.push_back(std::move(panel));
    }
  }
  return panels;
}

Finding finding_of(const Curve& curve) {
  const auto by_mean = [](const Layer& layer) { return layer.blocks.mean; };
  const auto [minimum, maximum] = std::ranges::minmax_element(curve.layers, {}, by_mean);
  const std::string low = fmt::format("{:.1f} %", 100 * minimum->blocks.mean);
  const std::string high = fmt::format("{:.1f} %", 100 * maximum->blocks.mean);
  const std::string range = curve.layers.size() < 2 ? ""
                            : low == high
                                ? fmt::format("; {} of the blocks in each of the {} layers", low, curve.layers.size())
                                : fmt::format("; from {} of the blocks in layer {} to {} in layer {}", low,
                                              minimum->number, high, maximum->number);
  const StudySelector& group = curve.selector->group;
  return {.text = fmt::format("At delta {:g} {} (gqa={}) skips {:.1f} % of the blocks and {:.1f} % of the tokens{}.",
                              curve.delta, display_name(group.label), curve.gqa(), 100 * curve.mean_blocks,
                              100 * curve.mean_tokens, range),
          .number = fmt::format("{:.1f} % of blocks skipped", 100 * curve.mean_blocks),
          .place = MapPlace{.metric = "block_keep_ratio",
                            .selector = group.label,
                            .setting = group.setting_labels[index_of(group, curve.delta).value()]}};
}

std::variant<ExperimentResult, Unsupported> make(const ModelStudy& study, const ExperimentOptions&) {
  if (gqa_policies(study, has_delta).empty())
    return Unsupported{"needs ffd with delta 5 or 7 in its grid" + left_out_for_settings_file(study),
                       "--selector ffd --delta 5,7"};
  const std::vector<Curve> curves = curves_of(study);
  if (curves.empty()) return Unsupported{"every context is shorter than a block, or the results lack block_keep_ratio"};

  Figure figure{.name = "layer_sparsity", .data = table_of(curves)};
  const std::string sub_block = curves.front().selector->option("sub_block");
  figure.caption = fmt::format(
      "Share of blocks{} and of tokens that FFD does not read after the scan, by layer; {}. Legend: means "
      "over all cells.",
      sub_block.empty() ? "" : fmt::format(" of {} tokens", sub_block), study.source());
  figure.note = "bands: 5 % to 95 % quantile over heads";
  figure.columns = 2;
  figure.panel_height_in = 1.1;
  figure.panels = panels_of(curves);
  ExperimentResult result;
  result.figures.push_back(std::move(figure));
  for (const Curve& curve : curves) result.findings.push_back(finding_of(curve));
  return result;
}

}  // namespace layer_sparsity_figure

Experiment layer_sparsity_experiment() {
  return {.name = "layer_sparsity",
          .paper = "Figure 'Layer-wise sparsity distribution'",
          .needs = "ffd (rule=topdelta) with delta 5 or 7; gqa=union and gqa=per_head for both policies",
          .make = layer_sparsity_figure::make};
}

}  // namespace attest
