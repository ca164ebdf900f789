// Scan precision, selection rule and launches of the decode kernel, each changed by itself.
#include "experiments/kernel_figures/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "experiments/kernel_figures/point_columns.h"
#include "experiments/paper/words.h"

namespace attest {
namespace {

constexpr const char* kOptions = "--lengths 16K --batch 1 --delta 5";

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

/// The six variants at one length, batch size and delta. No method: not measured.
struct Block {
  std::int64_t length = 0;
  int batch = 1;
  KernelSetting setting;  ///< of the top-delta variants
  std::array<KernelPoint, kVariants.size()> points;

  double time(std::size_t row) const { return points[row].us; }
};

bool is_variant(const KernelPoint& point, const Variant& variant) {
  return point.method == "ffd" && point.scan == variant.scan && point.rule == variant.rule &&
         point.launches == variant.launches;
}

bool same(const KernelSetting& a, const KernelSetting& b) { return a.kind == b.kind && a.value == b.value; }

/// Puts top-k variants beside top-delta ones: those of the same setting, else those that keep most nearly as much.
Block block_of(const std::vector<KernelPoint>& points, const KernelPoint& topdelta) {
  Block block{.length = topdelta.length, .batch = topdelta.batch, .setting = topdelta.setting, .points = {}};
  for (std::size_t row = 0; row < kVariants.size(); ++row) {
    const auto distance = [&](const KernelPoint& p) {
      return std::pair(!same(p.setting, topdelta.setting), std::abs(p.keep - topdelta.keep));
    };
    for (const KernelPoint& p : points) {
      if (!is_variant(p, kVariants[row]) || p.length != block.length || p.batch != block.batch) continue;
      if (p.rule == topdelta.rule && !same(p.setting, topdelta.setting)) continue;
      KernelPoint& place = block.points[row];
      if (place.method.empty() || distance(p) < distance(place)) place = p;
    }
    block.points[row].length = block.length;  // of a row that was not measured, too
    block.points[row].batch = block.batch;
  }
  return block;
}

std::vector<Block> blocks_of(const std::vector<KernelPoint>& points) {
  std::vector<Block> blocks;
  for (const KernelPoint& p : points) {
    if (p.rule != "topdelta" || std::ranges::none_of(kVariants, [&](const Variant& v) { return is_variant(p, v); }))
      continue;
    const bool known = std::ranges::any_of(blocks, [&](const Block& block) {
      return block.length == p.length && block.batch == p.batch && same(block.setting, p.setting);
    });
    if (!known) blocks.push_back(block_of(points, p));
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
  constexpr auto text = Column::Kind::text;
  return make_table<Row>(
      rows,
      {{{.name = "row", .heading = "#", .decimals = 0}, [](const Row& r) { return static_cast<double>(r.number + 1); }},
       {{"scan", text}, [](const Row& r) { return r.variant().scan; }},
       {{"rule", text}, [](const Row& r) { return r.variant().rule; }},
       {{"launches", text}, [](const Row& r) { return r.variant().launches; }},
       {{"setting", text}, [](const Row& r) { return setting_text(r.block->setting); }},
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

/// How a row's time compares with another's, and the paper's tokens per second.
void add_ratio(const Block& block, const std::string& what, std::size_t from, std::size_t to, std::string& text) {
  const double ratio = block.time(from) / block.time(to);
  if (std::isnan(ratio)) return;
  text += fmt::format("{}{} (rows {} and {}) {:.2f}x (paper: {:.2f}x)", text.empty() ? "" : ", ", what, from + 1,
                      to + 1, ratio, kVariants[to].tokens_per_second / kVariants[from].tokens_per_second);
}

std::vector<Finding> findings_of(const std::vector<Block>& blocks) {
  std::vector<Finding> findings;
  for (const Block& block : blocks) {
    const std::string place =
        fmt::format("At {} tokens, batch {}, {}", length_text(block.length), block.batch, setting_text(block.setting));
    std::string gains;
    add_ratio(block, "all together", 0, 5, gains);
    add_ratio(block, "one launch gives under top-k", 2, 4, gains);
    add_ratio(block, "one launch gives under top-delta", 3, 5, gains);
    add_ratio(block, "2-bit scans give under top-k", 0, 2, gains);
    add_ratio(block, "2-bit scans give under top-delta", 1, 3, gains);
    if (!gains.empty())
      findings.push_back(
          {.text = fmt::format("{}: {}. Ours are ratios of the kernel's times, the paper's of tokens per "
                               "second of a whole model on an RTX 4090.",
                               place, gains),
           .number = fmt::format("{:.2f}x", block.time(0) / block.time(5))});
    for (std::size_t row = 0; row < kVariants.size(); ++row)
      if (block.points[row].method.empty())
        findings.push_back({.text = fmt::format("{}, row {} ({}, {}, {}) was not measured.", place, row + 1,
                                                kVariants[row].scan, kVariants[row].rule, kVariants[row].launches),
                            .severity = Severity::warning});
  }
  return findings;
}

std::variant<ExperimentResult, Unsupported> make(const KernelStudy& study, const ExperimentOptions&) {
  const std::vector<Block> blocks = blocks_of(study.points("ablation"));
  if (blocks.empty()) return Unsupported{"needs ffd under top-delta with split and with fused launches", kOptions};
  ExperimentResult result{.findings = findings_of(blocks)};
  const std::vector<Finding> left = study.left_out({"ffd"});
  result.findings.insert(result.findings.end(), left.begin(), left.end());
  result.tables.push_back(
      {"ablation",
       fmt::format("Scan precision, selection rule and launches of a decode call; {}. Rows as in the paper. The budget "
                   "of top-k is the mean share that top-delta keeps. Recall and LSE error are against exact attention "
                   "of the same 16-bit inputs. The paper's numbers are tokens per second and accuracy of a whole model "
                   "on an RTX 4090 at 16K tokens.",
                   study.source()),
       table_of(blocks)});
  return result;
}

}  // namespace

KernelExperiment ablation() {
  return {.name = "ablation",
          .paper = "Table 'Component-wise ablation'",
          .needs = "a file of attest bench kernel with ffd in split and fused launches",
          .make = make};
}

}  // namespace attest
