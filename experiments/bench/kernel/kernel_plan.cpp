// Plans measurements, and parses lengths.
#include "experiments/bench/kernel/kernel_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "dumps/base/text_parts.h"
#include "experiments/bench/kernel/kernel_report.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/study_view/paper_settings.h"

namespace attest {
namespace {

/// The keep ratio at which the paper compares selections (Table selection overhead).
constexpr double kSelectionKeep = 0.273;
constexpr std::int64_t kFocusLength = 16384, kMaxLength = std::int64_t{1} << 24;
constexpr std::size_t kMaxLengths = 100;

KernelSetting delta_of(double delta) { return {.kind = "delta", .value = delta}; }
KernelSetting keep_of(double share) { return {.kind = "keep", .value = share}; }

KernelSpec ffd(std::string scan, std::string rule, std::string launches, const KernelSetting& setting) {
  return {.method = "ffd",
          .scan = std::move(scan),
          .rule = std::move(rule),
          .launches = std::move(launches),
          .setting = setting};
}

KernelSpec dense(std::string method) {
  return {.method = std::move(method), .scan = "16-bit", .rule = "none", .launches = "", .setting = {}};
}

std::vector<KernelSpec> latency(const KernelPlanOptions& options) {
  std::vector<KernelSpec> specs{dense("sdpa_flash"), dense("sdpa_cudnn")};
  specs.push_back({.method = "skip_softmax",
                   .scan = "16-bit",
                   .rule = "none",
                   .launches = "",
                   .setting = {.kind = "factor", .value = kPaperFactor}});
  for (const double delta : options.deltas) specs.push_back(ffd("2-bit", "topdelta", "fused", delta_of(delta)));
  for (const double keep : options.keeps) specs.push_back(ffd("2-bit", "topdelta", "fused", keep_of(keep)));
  for (const double keep : options.keeps)
    if (keep < 1) specs.push_back(ffd("2-bit", "topdelta", "dealt", keep_of(keep)));
  return specs;
}

std::vector<KernelSpec> quant_depth(const KernelPlanOptions& options) {
  std::vector<KernelSetting> settings{delta_of(options.deltas[0])};
  for (const double keep : options.keeps) settings.push_back(keep_of(keep));
  if (std::ranges::find(options.keeps, 1.0) == options.keeps.end()) settings.push_back(keep_of(1));
  std::vector<KernelSpec> specs;
  for (const char* scan : {"2-bit", "4-bit", "8-bit"})
    for (const KernelSetting& setting : settings) specs.push_back(ffd(scan, "topdelta", "fused", setting));
  return specs;
}

std::vector<KernelSpec> selection_overhead() {
  const auto selection = [](const char* method, const char* scan, const char* rule, const KernelSetting& setting) {
    return KernelSpec{.method = method, .scan = scan, .rule = rule, .launches = "split", .setting = setting};
  };
  return {selection("ffd_scan", "2-bit", "topdelta", keep_of(kSelectionKeep)),
          selection("block_topk", "16-bit", "topk", keep_of(kSelectionKeep)),
          selection("token_topp", "16-bit", "topp", keep_of(kSelectionKeep)),
          selection("kivi_scan", "2-bit", "none", keep_of(1))};
}

/// The six variants, in the order of the paper's rows.
std::vector<KernelSpec> ablation(const KernelPlanOptions& options) {
  const KernelSetting setting = delta_of(options.deltas[0]);
  return {ffd("16-bit", "topk", "split", setting), ffd("16-bit", "topdelta", "split", setting),
          ffd("2-bit", "topk", "split", setting),  ffd("2-bit", "topdelta", "split", setting),
          ffd("2-bit", "topk", "fused", setting),  ffd("2-bit", "topdelta", "fused", setting)};
}

std::vector<KernelSpec> specs_of(const std::string& experiment, const KernelPlanOptions& options) {
  if (experiment == "kernel_latency") return latency(options);
  if (experiment == "quant_depth") return quant_depth(options);
  if (experiment == "selection_overhead") return selection_overhead();
  return ablation(options);
}

/// Sorts measurements so that those that need the same copies of the inputs stand together: 16-bit ones come first,
/// then thumbnails by depth.
int memory_order(const KernelSpec& spec) {
  if (spec.scan == "16-bit" || spec.method == "kivi_scan") return 0;
  return spec.scan.empty() ? 0 : std::stoi(spec.scan);
}

}  // namespace

std::int64_t focus_length(const KernelPlanOptions& options) {
  if (std::ranges::find(options.lengths, kFocusLength) != options.lengths.end()) return kFocusLength;
  return std::ranges::max(options.lengths);
}

std::vector<PlannedKernel> planned_kernels(const KernelPlanOptions& options, std::int64_t length, int batch) {
  const bool focus = length == focus_length(options) && batch == options.batches.front();
  std::vector<PlannedKernel> plan;
  for (const std::string& experiment : options.experiments) {
    if (experiment != "kernel_latency" && !focus) continue;
    for (const KernelSpec& spec : specs_of(experiment, options)) {
      const auto same = std::ranges::find(plan, spec, &PlannedKernel::spec);
      if (same != plan.end())
        same->experiments.push_back(experiment);
      else
        plan.push_back({.spec = spec, .experiments = {experiment}, .dense = is_baseline(spec.method)});
    }
  }
  std::ranges::stable_sort(plan, {}, [](const PlannedKernel& each) { return memory_order(each.spec); });
  return plan;
}

std::vector<std::int64_t> parse_lengths(std::string_view text, std::string_view option) {
  const auto refuse = [option](std::string_view part) {
    throw UsageError(fmt::format(
        "{}: '{}' is not a number of tokens such as 4096 or 128K, from 1 to 16384K, or a range such as 4K..256K",
        option, part));
  };
  std::vector<std::int64_t> lengths;
  for (const std::string_view part : trimmed_items(text)) {
    const std::size_t dots = part.find("..");
    const std::optional<std::int64_t> first = parse_token_count(part.substr(0, dots), kMaxLength);
    const std::optional<std::int64_t> last =
        dots == std::string_view::npos ? first : parse_token_count(part.substr(dots + 2), kMaxLength);
    if (!first || !last || *last < *first) refuse(part);
    for (std::int64_t length = *first; length <= *last; length *= 2) {
      if (std::ranges::find(lengths, length) != lengths.end())
        throw UsageError(fmt::format("{}: {} tokens are there twice", option, length));
      lengths.push_back(length);
    }
    if (lengths.size() > kMaxLengths) throw UsageError(fmt::format("{}: more than {} lengths", option, kMaxLengths));
  }
  return lengths;
}

}  // namespace attest
