// Scan precision, selection rule and launches of the decode kernel, each changed by itself.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "dumps/base/join.h"
#include "experiments/bench/kernel/kernel_experiments.h"
#include "experiments/bench/kernel/point_columns.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace ablation_figure {

constexpr const char* kOptions = "--only ablation --lengths 16K --batch 1 --delta 5 -o FILE";

/// A row of the paper's table, with its numbers of an RTX 4090 at 16K tokens.
struct Variant {
  const char *scan, *rule, *launches;
  double tokens_per_second, ruler, longbench;
};
constexpr std::array<Variant, 6> kVariants{{{"16-bit", "topk", "split", 17.43, 86.82, 25.87},
                                            {"16-bit", "topdelta", "split", 21.64, 90.39, 25.90},
                                            {"2-bit", "topk", "split", 14.80, 86.95, 25.83},
                                            {"2-bit", "topdelta", "split", 24.65, 90.40, 25.90},
                                            {"2-bit", "topk", "fused", 21.21, 86.95, 25.83},
                                            {"2-bit", "topdelta", "fused", 53.96, 90.40, 25.90}}};

bool is_topk(const Variant& variant) { return std::string_view(variant.rule) == "topk"; }

/// The six variants at one length, batch size and delta. No method: not measured.
struct Block {
  std::int64_t length = 0;
  int batch = 1;
  KernelSetting setting;  ///< of the top-delta variants
  std::array<KernelPoint, kVariants.size()> points;

  double time(std::size_t row) const { return points[row].us; }
};

using Measurements = std::vector<const KernelMeasurement*>;

bool same(const KernelSetting& a, const KernelSetting& b) { return a.kind == b.kind && a.value == b.value; }

Measurements measurements_of(const Measurements& all, const Variant& variant, std::int64_t length, int batch) {
  Measurements chosen;
  std::ranges::copy_if(all, std::back_inserter(chosen), [&](const KernelMeasurement* m) {
    return m->scan == variant.scan && m->rule == variant.rule && m->launches == variant.launches &&
           m->length == length && m->batch == batch;
  });
  return chosen;
}

/// For each layer and sample, the measurement of top-k whose share of kept tokens is nearest to that of top-delta.
/// Top-k's budget is matched layer by layer, and may be given for several deltas.
Measurements matched(const Measurements& topk, const Measurements& topdelta) {
  const auto place_of = [](const KernelMeasurement* m) { return std::pair(m->layer, m->sample); };
  std::map<std::pair<std::optional<int>, std::string>, double> kept;
  for (const KernelMeasurement* m : topdelta) kept.emplace(place_of(m), m->keep_ratio);
  std::map<std::pair<std::optional<int>, std::string>, const KernelMeasurement*> nearest;
  for (const KernelMeasurement* m : topk) {
    const auto target = kept.find(place_of(m));
    if (target == kept.end()) continue;
    const auto distance = [&](const KernelMeasurement* one) { return std::abs(one->keep_ratio - target->second); };
    const auto [known, added] = nearest.emplace(place_of(m), m);
    if (!added && distance(m) < distance(known->second)) known->second = m;
  }
  Measurements chosen;
  for (const auto& [place, m] : nearest) chosen.push_back(m);
  return chosen;
}

Block block_of(const Measurements& all, const KernelMeasurement& first) {
  Block block{.length = first.length, .batch = first.batch, .setting = first.setting, .points = {}};
  std::array<Measurements, kVariants.size()> rows;
  Measurements topdelta;
  for (std::size_t row = 0; row < kVariants.size(); ++row) {
    rows[row] = measurements_of(all, kVariants[row], block.length, block.batch);
    if (is_topk(kVariants[row])) continue;
    std::erase_if(rows[row], [&](const KernelMeasurement* m) { return !same(m->setting, block.setting); });
    if (!rows[row].empty()) topdelta = rows[row];  // of the last row that was measured: FFD itself
  }
  for (std::size_t row = 0; row < kVariants.size(); ++row) {
    if (is_topk(kVariants[row])) rows[row] = matched(rows[row], topdelta);
    if (!rows[row].empty()) block.points[row] = pooled(rows[row]);
    block.points[row].length = block.length;  // of a row that was not measured, too
    block.points[row].batch = block.batch;
  }
  return block;
}

std::vector<Block> blocks_of(const KernelReport& report) {
  Measurements all;
  for (const KernelMeasurement& m : report.measurements)
    if (m.method == "ffd" && m.median_microseconds > 0 && std::ranges::count(m.experiments, "ablation") > 0)
      all.push_back(&m);
  std::vector<Block> blocks;
  for (const KernelMeasurement* m : all) {
    const bool known = std::ranges::any_of(blocks, [&](const Block& block) {
      return block.length == m->length && block.batch == m->batch && same(block.setting, m->setting);
    });
    const bool named = std::ranges::any_of(kVariants, [&](const Variant& v) {
      return !is_topk(v) && m->scan == v.scan && m->rule == v.rule && m->launches == v.launches;
    });
    if (!known && named) blocks.push_back(block_of(all, *m));
  }
  std::ranges::stable_sort(
      blocks, {}, [](const Block& b) { return std::tuple(b.batch, b.length, b.setting.kind, b.setting.value); });
  return blocks;
}

struct Row {
  const Block* block = nullptr;
  std::size_t number = 0;  ///< in the paper's table, from 0
  KernelPoint point;

  const Variant& variant() const { return kVariants[number]; }
};

Table table_of(const std::vector<Block>& blocks) {
  std::vector<Row> rows;
  for (const Block& block : blocks)
    for (std::size_t number = 0; number < kVariants.size(); ++number)
      rows.push_back({&block, number, block.points[number]});
  return make_table<Row>(
      rows,
      {{{.name = "row", .heading = "#", .decimals = 0}, [](const Row& r) { return static_cast<double>(r.number + 1); }},
       {{"scan", kText}, [](const Row& r) { return r.variant().scan; }},
       {{"rule", kText}, [](const Row& r) { return r.variant().rule; }},
       {{"launches", kText}, [](const Row& r) { return r.variant().launches; }},
       {{"setting", kText}, [](const Row& r) { return setting_text(r.block->setting); }},
       of_point<Row>("batch"),
       of_point<Row>("length"),
       of_point<Row>("layers"),
       of_point<Row>("us"),
       of_point<Row>("us_low"),
       of_point<Row>("us_high"),
       of_point<Row>("floor_us"),
       of_point<Row>("floor_ratio"),
       {{.name = "over_row_1", .heading = "speed-up over row 1", .decimals = 2},
        [](const Row& r) { return r.block->time(0) / r.point.us; }},
       {{.name = "over_row_6", .heading = "time / row 6's", .decimals = 2},
        [](const Row& r) { return r.point.us / r.block->time(kVariants.size() - 1); }},
       of_point<Row>("keep_ratio"),
       of_point<Row>("io_ratio"),
       of_point<Row>("recall_mean"),
       of_point<Row>("recall_min"),
       of_point<Row>("lse_error_mean"),
       of_point<Row>("lse_error_max"),
       {{.name = "paper_rtx4090_tokens_per_second", .heading = "paper, RTX 4090: tok/s", .decimals = 2},
        [](const Row& r) { return r.variant().tokens_per_second; }},
       {{.name = "paper_rtx4090_over_row_1", .heading = "paper, RTX 4090: tok/s over row 1", .decimals = 2},
        [](const Row& r) { return r.variant().tokens_per_second / kVariants[0].tokens_per_second; }},
       {{.name = "paper_ruler", .heading = "paper: RULER", .decimals = 2},
        [](const Row& r) { return r.variant().ruler; }},
       {{.name = "paper_longbench", .heading = "paper: LongBench", .decimals = 2},
        [](const Row& r) { return r.variant().longbench; }}});
}

/// "1.81x (rows 1 and 6; paper: 3.10x)"; empty if one of the two was not measured.
std::string gain(const Block& block, std::size_t from, std::size_t to) {
  const double ratio = block.time(from) / block.time(to);
  if (std::isnan(ratio)) return {};
  return fmt::format("{:.2f}x (rows {} and {}; paper: {:.2f}x)", ratio, from + 1, to + 1,
                     kVariants[to].tokens_per_second / kVariants[from].tokens_per_second);
}

/// " Fused launches give 1.25x (..) under top-k and 1.35x (..) under top-delta."
std::string gains(const std::string& what, const std::string& under_topk, const std::string& under_topdelta) {
  if (under_topk.empty() && under_topdelta.empty()) return {};
  std::string text = fmt::format(" {} give", what);
  if (!under_topk.empty()) text += fmt::format(" {} under top-k", under_topk);
  if (!under_topk.empty() && !under_topdelta.empty()) text += " and";
  if (!under_topdelta.empty()) text += fmt::format(" {} under top-delta", under_topdelta);
  return text + ".";
}

std::vector<Finding> findings_of(const std::vector<Block>& blocks) {
  std::vector<Finding> findings;
  for (const Block& block : blocks) {
    const std::string place =
        fmt::format("At {} tokens, batch {}, {}", length_text(block.length), block.batch, setting_text(block.setting));
    std::string text;
    if (const std::string all = gain(block, 0, 5); !all.empty()) text += fmt::format(" all together give {}.", all);
    text += gains(text.empty() ? "fused launches" : "Fused launches", gain(block, 2, 4), gain(block, 3, 5));
    text += gains("2-bit scans", gain(block, 0, 2), gain(block, 1, 3));
    if (!text.empty())
      findings.push_back(
          {.text =
               fmt::format("{},{} Ours are ratios of the kernel's times, the paper's of tokens per second of a whole "
                           "model on an RTX 4090.",
                           place, text)});
    for (std::size_t row = 0; row < kVariants.size(); ++row)
      if (block.points[row].method.empty())
        findings.push_back({.text = fmt::format("{}, row {} ({}, {}, {}) was not measured.", place, row + 1,
                                                kVariants[row].scan, kVariants[row].rule, kVariants[row].launches),
                            .severity = Severity::warning});
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const KernelStudy& study, const ExperimentOptions&) {
  const std::vector<Block> blocks = blocks_of(study.report());
  if (blocks.empty()) return Unsupported{"needs ffd under top-delta with split and with fused launches", kOptions};
  ExperimentResult result{.findings = findings_of(blocks)};
  const std::vector<Finding> left = study.left_out({"ffd"});
  result.findings.insert(result.findings.end(), left.begin(), left.end());
  result.tables.push_back(
      {"ablation",
       fmt::format("Scan precision, selection rule and launches of a decode call; {}. Rows as in the paper. The budget "
                   "of top-k is the share that top-delta keeps, layer by layer. Recall and LSE error are against exact "
                   "attention of the same 16-bit inputs. The paper's numbers are tokens per second and accuracy of a "
                   "whole model on an RTX 4090 at 16K tokens.",
                   study.source()),
       table_of(blocks)});
  return result;
}

}  // namespace ablation_figure

KernelExperiment ablation() {
  return {.name = "ablation",
          .paper = "Table 'Component-wise ablation'",
          .needs = "a file of attest bench kernel with ffd in split and fused launches",
          .make = ablation_figure::make};
}

}  // namespace attest
