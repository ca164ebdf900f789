// Sentences about speed-ups, their limit, and floors.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "dumps/base/join.h"
#include "experiments/bench/kernel/latency_row.h"
#include "experiments/study_view/words.h"

namespace attest {
namespace {

using Rows = std::vector<const LatencyRow*>;

/// "FFD delta 5 at 256K tokens, batch 1".
std::string place_of(const LatencyRow& row) {
  return fmt::format("{} at {} tokens, batch {}", curve_text(row.point), length_text(row.point.length),
                     row.point.batch);
}

bool is_same_but_dealt(const KernelPoint& dealt, const KernelPoint& other) {
  return other.method == dealt.method && other.launches == "fused" && other.scan == dealt.scan &&
         other.rule == dealt.rule && other.setting == dealt.setting && other.length == dealt.length &&
         other.batch == dealt.batch;
}

/// FFD's speed-ups over one baseline.
void add_speed_ups(const Rows& ffd, const LatencyBaseline& baseline, std::vector<Finding>& findings) {
  const auto over = [&](const LatencyRow* row) { return row->*baseline.over; };
  Rows rows;
  std::ranges::copy_if(ffd, std::back_inserter(rows), [&](const LatencyRow* row) { return !std::isnan(over(row)); });
  if (rows.empty()) {
    findings.push_back({fmt::format("The bench has no {} to compare with.", baseline.title)});
    return;
  }
  const LatencyRow& peak = **std::ranges::max_element(rows, {}, over);
  std::string limit;
  if (const double maximum = peak.point.io_limit(); !std::isnan(maximum))
    limit = fmt::format("; reading less gives at most 1/io = {:.2f}x there", maximum);
  if (!std::isnan(peak.point.recall_mean)) limit += fmt::format("; mean recall is {:.4f}", peak.point.recall_mean);
  const bool flash = baseline.over == &LatencyRow::over_flash;
  findings.push_back(
      {.text = fmt::format("The largest speed-up over {} is {:.2f}x{}, of {}{}.", baseline.title, over(&peak),
                           flash ? fmt::format(" (paper, RTX 4090: {:.2f}x)", kPaperPeakSpeedUp) : "", place_of(peak),
                           limit),
       .severity = over(&peak) > 1 ? Severity::good : Severity::warning,
       .number = fmt::format("{:.2f}x", over(&peak))});

  const auto beyond = [&](const LatencyRow* row) { return over(row) / row->point.io_limit(); };
  Rows exceeding;
  std::ranges::copy_if(rows, std::back_inserter(exceeding), [&](const LatencyRow* row) { return beyond(row) > 1; });
  if (!exceeding.empty()) {
    const LatencyRow* maximum = *std::ranges::max_element(exceeding, {}, beyond);
    const double dense = (flash ? maximum->flash : maximum->cudnn).floor_ratio();
    findings.push_back(
        {.text =
             fmt::format("{} of {} speed-ups of FFD over {} exceed 1/io, most that of {}: {:.2f}x against {:.2f}x. So "
                         "much cannot come from reading less: {} is slow there{}.",
                         exceeding.size(), rows.size(), baseline.title, place_of(*maximum), over(maximum),
                         maximum->point.io_limit(), baseline.title,
                         std::isfinite(dense) ? fmt::format(", with {:.2f} times its own floor", dense) : ""),
         .severity = Severity::warning,
         .number = fmt::format("{} of {} exceed", exceeding.size(), rows.size())});
  } else {
    findings.push_back({fmt::format("No speed-up of FFD over {} exceeds 1/io.", baseline.title)});
  }

  const auto slower = std::ranges::count_if(rows, [&](const LatencyRow* row) { return over(row) < 1; });
  if (slower == 0) return;
  const LatencyRow& slowest = **std::ranges::min_element(rows, {}, over);
  findings.push_back({.text = fmt::format("FFD is slower than {} in {} of {} cases, most so {}: {:.2f}x.",
                                          baseline.title, slower, rows.size(), place_of(slowest), over(&slowest)),
                      .severity = Severity::warning,
                      .number = fmt::format("{} of {} slower", slower, rows.size())});
}

/// Adds the means that the paper has, too: of FFD at delta 5 and 7 with one sequence.
void add_means(const std::vector<LatencyRow>& rows, std::vector<Finding>& findings) {
  for (const LatencySummary& summary : latency_summaries(rows))
    if (const double papers = paper_mean_speed_up(summary.first); !std::isnan(papers + summary.flash.mean))
      findings.push_back(
          {.text = fmt::format(
               "{}, batch 1, is {:.2f}x as fast as SDPA flash on average over {} (paper, RTX 4090: {:.2f}x).",
               curve_text(summary.first), summary.flash.mean, counted(summary.flash.lengths, "length"), papers),
           .number = fmt::format("{:.2f}x", summary.flash.mean)});
}

void add_floor(const Rows& ffd, std::vector<Finding>& findings) {
  Rows rows;
  std::ranges::copy_if(ffd, std::back_inserter(rows),
                       [](const LatencyRow* row) { return std::isfinite(row->point.floor_ratio()); });
  if (rows.empty()) return;
  const auto ratio = [](const LatencyRow* row) { return row->point.floor_ratio(); };
  const auto [nearest, farthest] = std::ranges::minmax_element(rows, {}, ratio);
  findings.push_back({.text = fmt::format("FFD takes {:.2f} times its floor where it is nearest ({}) and {:.2f} times "
                                          "where it is farthest ({}).",
                                          ratio(*nearest), place_of(**nearest), ratio(*farthest), place_of(**farthest)),
                      .number = fmt::format("{:.2f} x floor", ratio(*nearest))});
}

/// Adds what a deal of thread blocks by kept shares is worth.
void add_deals(const std::vector<LatencyRow>& rows, std::vector<Finding>& findings) {
  std::vector<std::pair<double, const LatencyRow*>> ratios;  // of times, with the deal over without
  for (const LatencyRow& dealt : rows)
    for (const LatencyRow& other : rows)
      if (dealt.point.is_dealt() && is_same_but_dealt(dealt.point, other.point))
        ratios.emplace_back(dealt.point.us / other.point.us, &dealt);
  if (ratios.empty()) return;
  const auto [least, most] = std::ranges::minmax_element(ratios);
  std::string range = fmt::format("{:.2f} times ({})", least->first, place_of(*least->second));
  if (ratios.size() > 1)
    range = fmt::format("{:.2f} ({}) to {:.2f} times ({})", least->first, place_of(*least->second), most->first,
                        place_of(*most->second));
  findings.push_back(
      {.text = fmt::format("Given a deal of thread blocks by what each KV head keeps at the step, a call "
                           "takes {} as long as without one, in {}.",
                           range, counted(ratios.size(), "case")),
       .number = fmt::format("{:.2f}x the time", least->first)});
}

/// Adds how far outputs were from the reference: no time is worth anything without that.
void add_check(const KernelReport& report, std::vector<Finding>& findings) {
  double output = kNotMeasured, lse = kNotMeasured, differing = 0, blocks = 0;
  for (const KernelMeasurement& m : report.measurements) {
    output = std::fmax(output, m.check.largest_output_error);
    lse = std::fmax(lse, m.check.largest_lse_error);
    differing += static_cast<double>(m.check.blocks_differing);
    blocks += static_cast<double>(m.check.blocks);
  }
  if (std::isnan(output) || std::isnan(lse)) return;
  findings.push_back({fmt::format(
      "Before anything was timed, results were compared with a plain computation: outputs differ by at most {:.2g} of "
      "their norm, log-sum-exps by {:.2g} nats, {:.0f} of {:.0f} blocks are kept by one of the two alone.",
      output, lse, differing, blocks)});
}

}  // namespace

std::vector<Finding> latency_findings(const KernelStudy& study, const std::vector<LatencyRow>& rows) {
  Rows ffd;
  for (const LatencyRow& row : rows)
    if (row.point.method == "ffd" && !row.point.is_dealt()) ffd.push_back(&row);
  std::vector<Finding> findings;
  if (!ffd.empty()) {
    for (const LatencyBaseline& baseline : kBaselines) add_speed_ups(ffd, baseline, findings);
    add_means(rows, findings);
    add_floor(ffd, findings);
  }
  add_deals(rows, findings);
  add_check(study.report(), findings);
  const std::vector<Finding> left = study.left_out({"ffd", "sdpa_flash", "sdpa_cudnn", "skip_softmax"});
  findings.insert(findings.end(), left.begin(), left.end());
  return findings;
}

}  // namespace attest
