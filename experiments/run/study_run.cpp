// Runs a study for a command.
#include "experiments/run/study_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/process/interrupt.h"
#include "experiments/cli/process/rank_setup.h"
#include "experiments/cli/process/version.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

std::string outcome_text(const RunReport& report, const std::string& output) {
  switch (report.outcome) {
    case RunReport::Outcome::found_complete:
      return fmt::format("'{}' is complete already; nothing was left to do", output);
    case RunReport::Outcome::completed_by_another_process:
      return fmt::format("another process has completed '{}'", output);
    case RunReport::Outcome::unfinished:
      return fmt::format("{} of {} layers are missing in '{}'", report.missing.size(), report.units, output);
    case RunReport::Outcome::wrote_chunk:
    case RunReport::Outcome::computed:
      break;
  }
  const StudyProgress& progress = report.progress;
  std::string text;
  if (progress.resumed > 0)
    text = fmt::format("resumed: {} of {} layers were finished before", progress.resumed, progress.total);
  if (progress.beside > 0)
    text += fmt::format("{}{} of {} layers were computed by other processes", text.empty() ? "" : "; ", progress.beside,
                        progress.total);
  return text;
}

bool takes(const SelectorSpec& spec, SettingKind kind) {
  try {
    return make_selector(spec)->setting_kind() == kind;
  } catch (const UsageError&) {  // a value that needs another option, too
    return false;
  }
}

/// The registered selectors that take settings of `kind`, with default options; if none does, with one other option:
/// "skip_softmax:unit=factor".
std::vector<std::string> selectors_with(SettingKind kind) {
  std::vector<std::string> found;
  for (const SelectorInfo* info : all_selectors())
    if (const std::string name(info->name); takes({name, name, {}}, kind)) found.push_back(name);
  if (!found.empty()) return found;
  for (const SelectorInfo* info : all_selectors()) {
    const std::string name(info->name);
    const std::unique_ptr<Selector> selector = make_selector({name, name, {}});
    for (const OptionValue& option : selector->options())
      for (const std::string& value : option.alternatives)
        if (takes({name, name, {{option.name, value}}}, kind))
          found.push_back(fmt::format("{}:{}={}", name, option.name, value));
  }
  return found;
}

}  // namespace

void check_dumps(const std::vector<std::string>& paths) {
  std::error_code missing;  // reported when the dump is opened
  for (std::size_t i = 0; i < paths.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (paths[i] == paths[j] || std::filesystem::equivalent(paths[i], paths[j], missing))
        throw UsageError(fmt::format("'{}' and '{}' are the same dump, expected each once", paths[j], paths[i]));
}

RunReport run_typed_study(Study study, RunOptions options, const GlobalOptions& global,
                          const std::map<SettingKind, std::string>& typed_grids, const std::string& bad_layer_advice,
                          std::chrono::milliseconds time_limit, const std::optional<Launch>& launch) {
  const Launch* const ranks = launch ? &*launch : nullptr;
  if (launch) options.processes = launch->world;
  options.choose_device = [&] { return options.device = global.resolved_device(ranks); };
  options.threads = global.thread_count(ranks);
  options.program = program_version().program;
  options.git_commit = program_version().git_commit;
  options.command_line = command_line();
  InterruptFlag interrupt;
  if (time_limit.count() > 0) interrupt.set_after(time_limit);
  Progress progress("layers", global.quiet);
  if (ranks != nullptr) progress.notice(rank_text(*ranks));
  const bool first = ranks == nullptr || ranks->rank == 0;  // says what would be the same for all
  options.notices = study_notices(study, typed_grids);
  StudyObserver observer{
      .started =
          [&](const std::string& device) {
            if (!options.device.notice.empty()) progress.notice(options.device.notice);
            progress.notice(fmt::format("device: {}", device));
          },
      .progress =
          [&](const StudyProgress& p) {
            InterruptFlag::set_last_words(interrupted_text(p.finished, p.total, options.resume_advice));
            if (first) progress.show(p.finished, p.total, p.resumed + p.beside);
          },
      .notice = [&](const std::string& text) { progress.notice("warning: " + text); }};
  if (!bad_layer_advice.empty()) observer.bad_layer_advice = bad_layer_advice;
  RunReport report;
  try {
    report = run_study(std::move(study), options, interrupt.flag(), observer);
  } catch (const Interrupted& error) {
    if (!interrupt.time_is_over()) throw;
    throw Interrupted(fmt::format("the time limit is over: {}", error.what()));
  }
  progress.end();
  if (const std::string text = outcome_text(report, options.output); !text.empty()) progress.notice(text);

  if (first)  // it prints the summary
    for (const std::string& label : report.summary.dropped_nothing)
      progress.notice(fmt::format(
          "warning: selector '{}' dropped nothing at any setting: it kept every token of every query", label));
  return report;
}

std::vector<std::string> study_notices(const Study& study, const std::map<SettingKind, std::string>& grids) {
  std::vector<std::string> notices;
  for (const auto& [kind, text] : grids) {
    const bool used = std::ranges::count(study.selectors, kind, &StudySelector::kind) > 0;
    if (!text.empty() && !used)
      notices.push_back(fmt::format("--{} {} is not used: no selector of this study takes it, as {} would",
                                    name_of(kind), text, join(selectors_with(kind), ", ")));
  }
  for (auto one = study.selectors.begin(); one != study.selectors.end(); ++one)
    for (auto other = study.selectors.begin(); other != one; ++other)
      if (one->name == other->name && one->options_json == other->options_json)
        notices.push_back(fmt::format("'{}' and '{}' are the same selector, '{}' with the same options", other->label,
                                      one->label, one->name));
  return notices;
}

}  // namespace attest
