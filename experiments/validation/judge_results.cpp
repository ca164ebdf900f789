// Judges results files as the options ask.
#include "experiments/validation/judge_results.h"

#include <fmt/core.h>

#include <algorithm>

#include "analysis/outcomes/answered_prompts.h"
#include "analysis/run/input_hashes.h"
#include "analysis/statistics/model_cells.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/grid.h"
#include "experiments/cli/options/study_choice.h"

namespace attest {
namespace {

void check_kind(const PromptSet& set, const JudgementOptions& options) {
  if (!options.setting_kind || *options.setting_kind == set.selector.kind) return;
  const std::string has = set.selector.kind == SettingKind::none
                              ? "no settings"
                              : fmt::format("settings of --{}", name_of(set.selector.kind));
  throw UsageError(fmt::format("--{}: the selector '{}' has {}", name_of(*options.setting_kind),
                               printable(set.selector.label), has));
}

/// The length that is asked for if the prompts do not have it.
std::optional<std::int64_t> extrapolated_length(std::int64_t shortest, std::int64_t longest,
                                                const JudgementOptions& options) {
  if (!options.for_length) return std::nullopt;
  if (is_length_among(*options.for_length, shortest, longest)) return std::nullopt;
  if (options.extrapolate) return options.for_length;
  throw NotCertified(fmt::format(
      "nothing is claimed for contexts of {} tokens: the prompts have {} to {} tokens. Give prompts of that length, or "
      "--extrapolate to have the verdict all the same",
      *options.for_length, shortest, longest));
}

std::vector<std::size_t> grid_of(const PromptSet& set, const JudgementOptions& options) {
  std::vector<std::size_t> grid;
  if (options.grid.empty()) return grid;
  if (set.selector.kind == SettingKind::none)
    throw UsageError(fmt::format("--grid: the selector '{}' has no settings", printable(set.selector.label)));
  for (const std::string& label : parse_grid(set.selector.kind, options.grid).labels)
    grid.push_back(find_setting(set, label, "--grid"));
  return grid;
}

/// Targets by which no setting can be chosen: what costs fall as settings get smaller, so that the sequence from the
/// safest on would end where it begins; a metric that no setting changes is met at the smallest, too; and one without a
/// better direction says nothing about which setting is safe.
void check_choice(const PromptSet& set, const ValidationRequest& request) {
  if (!set.candidates.empty() || set.selector.kind == SettingKind::none || request.setting) return;
  const std::string one = fmt::format("--{} judges one setting", name_of(set.selector.kind));
  bool any = request.targets.empty();
  for (const Target& target : request.targets) {
    const std::string metric(target.quantity.stored_metric());
    if (target.quantity.info.is_cost)
      throw UsageError(
          fmt::format("--target '{}': {} is a cost, which the safest settings have most of, so that no "
                      "setting is chosen by it; {}",
                      target.text, metric, one));
    const MetricAxes axes = target.quantity.info.axes;
    if (target.quantity.info.better == Better::neither && axes == MetricAxes::query_head_setting)
      throw UsageError(
          fmt::format("--target '{}': no value of {} is better than another, so that no setting is chosen by it; {}",
                      target.text, metric, one));
    any = any || target.of_answers() || axes == MetricAxes::query_head_setting || axes == MetricAxes::query_setting;
  }
  if (!any)
    throw UsageError(
        fmt::format("--target '{}': {} is the same at every setting, so that no setting is chosen by it; {}",
                    request.targets.front().text, request.targets.front().quantity.quantity(), one));
}

std::vector<Target> targets_of(const JudgementOptions& options, bool answers) {
  std::vector<Target> targets = parse_targets(options.targets);
  if (answers) targets.push_back(answers_target());
  return targets;
}

}  // namespace

void check_options(const JudgementOptions& options, bool answers) {
  const std::vector<Target> targets = targets_of(options, answers);
  if (targets.empty()) throw UsageError("--target is missing, for instance --target 'recall>=0.999'");
  for (const Target& target : targets)
    if (const std::optional<double> worst = target.worst_value();
        worst && (target.at_least ? target.value <= *worst : target.value >= *worst))
      throw UsageError(fmt::format("--target '{}': every {} is {} {:g}, so that every setting meets it", target.text,
                                   target.quantity.quantity(), target.at_least ? "at least" : "at most", *worst));
  check_guarantee(options.guarantee, targets);
  if (options.guarantee.clip && options.guarantee.kind != GuaranteeKind::mean)
    throw UsageError("--clip belongs to --claim mean");
  if (options.extrapolate && !options.for_length) throw UsageError("--extrapolate belongs to --for-length");
  if (!options.layers.empty()) {
    parse_layers(options.layers);
    for (const Target& target : targets)
      if (is_of_model(target.quantity.metric))
        throw UsageError(
            fmt::format("--layers: '{}' is of all layers together, of which none is left out", target.quantity.metric));
  }
  if (!options.candidates.empty())
    for (const auto& [given, option] :
         {std::pair(!options.setting.empty(), "a setting to judge"), std::pair(!options.grid.empty(), "--grid")})
      if (given) throw UsageError(fmt::format("--candidates are all that is judged, and {} is given, too", option));
  if (!options.setting.empty()) {
    const std::string option = fmt::format("--{}", name_of(*options.setting_kind));
    if (parse_grid(*options.setting_kind, options.setting).labels.size() != 1)
      throw UsageError(fmt::format("{}: '{}' is not one setting to judge; --grid takes several to choose from", option,
                                   printable(options.setting)));
    if (!options.grid.empty())
      throw UsageError(fmt::format("{} judges one setting and --grid chooses among several: give one of them", option));
    if (options.per != "model")
      throw UsageError(
          fmt::format("{} judges one setting for the whole model, and --per {} chooses many", option, options.per));
  }
  if (options.per == "model" && options.io_budget)
    throw UsageError("--io-budget shares bytes among layers or KV heads: --per layer or --per kv_head");
  if (options.per == "model" && options.choosing)
    throw UsageError("--choose divides the prompts for --per layer or --per kv_head");
  if (options.choosing && !(*options.choosing > 0 && *options.choosing < 1))
    throw UsageError(fmt::format("--choose: {} is not above 0 and below 1", *options.choosing));
  if (options.io_budget && !(*options.io_budget > 0))
    throw UsageError(fmt::format("--io-budget: {} is not above 0", *options.io_budget));
}

void check_samples(std::span<const StudyDump> dumps, const JudgementOptions& options) {
  std::vector<std::string> models;
  for (const StudyDump& dump : dumps) models.push_back(dump.model);
  const std::string model = judged_model(models, options.model);
  std::vector<std::int64_t> lengths;
  for (const StudyDump& dump : dumps) {
    if (dump.model != model) continue;
    for (const StudySample& sample : dump.samples) {
      lengths.push_back(sample.num_tokens);
      if (!options.cluster.empty() && options.cluster != "task" && !sample.attributes.contains(options.cluster))
        refuse_cluster(dump.path, sample.name, options.cluster);
    }
  }
  if (!lengths.empty()) extrapolated_length(std::ranges::min(lengths), std::ranges::max(lengths), options);
}

std::vector<JudgedFile> judged_files(ResultsFiles files, int threads, std::span<const TasksFile> tasks) {
  std::vector<std::string> paths;
  for (const ResultsFile* file : files) paths.push_back(file->path());
  for (const TasksFile& file : tasks) paths.push_back(file.path);
  const std::vector<std::string> hashes = content_hashes(paths, threads);
  std::vector<JudgedFile> judged;
  for (std::size_t i = 0; i < paths.size(); ++i) judged.push_back({paths[i], hashes[i]});
  return judged;
}

Judgement judge_results(ResultsFiles files, const JudgementOptions& options, std::span<const TasksFile> tasks,
                        std::optional<std::vector<JudgedFile>> hashed) {
  check_options(options, !tasks.empty());
  PromptScope scope{.model = options.model, .selector = options.selector, .cluster = options.cluster};
  if (!files.empty())
    scope.candidates = joined_items(
        options.candidates, [&](const std::string& text) { return find_labelled(*files.front(), text).has_value(); });
  if (!options.layers.empty()) scope.layers = parse_layers(options.layers);
  if (files.empty() && !options.candidates.empty())
    throw UsageError("--candidates takes results of attest run; answers alone are judged by --selector");
  if (files.empty() && !options.targets.empty())
    throw UsageError(
        fmt::format("--target '{}' is of cells, which answers alone do not have: give results of attest run, too",
                    options.targets.front()));
  if (files.empty() && !options.layers.empty())
    throw UsageError("--layers is of cells: answers are of the whole model");
  Judgement judgement{.results = {},
                      .set = files.empty() ? gather_answers(tasks, scope) : gather_prompts(files, scope),
                      .request = {},
                      .single = {}};
  if (!files.empty() && !tasks.empty()) add_answers(files, tasks, judgement.set);
  const PromptSet& set = judgement.set;
  check_kind(set, options);
  judgement.extrapolated_to = extrapolated_length(set.shortest(), set.longest(), options);
  judgement.request = {.targets = targets_of(options, !tasks.empty()), .guarantee = options.guarantee};
  judgement.request.threads = options.threads;
  judgement.request.grid = grid_of(set, options);
  if (!options.setting.empty()) judgement.request.setting = find_setting(set, options.setting);
  check_choice(set, judgement.request);
  if (shifts_settings(set.selector) && (options.per != "model" || options.recommends))
    throw UsageError(
        fmt::format("the settings of '{}' are added to those of its settings_file; {} takes a study without "
                    "that option",
                    printable(set.selector.label), options.recommends ? "a recommendation" : "--per " + options.per));
  judgement.single = validate(set, judgement.request);
  if (options.per != "model") {
    if (!set.has_choice())
      throw UsageError(
          fmt::format("--per {}: the selector '{}' has no settings", options.per, printable(set.selector.label)));
    judgement.unit_request = {.kind = options.per == name_of(UnitKind::layer) ? UnitKind::layer : UnitKind::kv_head,
                              .choosing = options.choosing.value_or(0.5),
                              .seed = options.guarantee.seed,
                              .io_budget = options.io_budget};
    judgement.units = validate_units(set, judgement.request, judgement.unit_request);
  }
  judgement.results = hashed ? *std::move(hashed) : judged_files(files, options.threads, tasks);
  return judgement;
}

}  // namespace attest
