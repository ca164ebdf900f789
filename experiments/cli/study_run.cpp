// Runs a study for a command.
#include "experiments/cli/study_run.h"

#include <fmt/format.h>

#include <filesystem>

#include "dumps/base/error.h"
#include "experiments/cli/command_line.h"
#include "experiments/cli/interrupt.h"
#include "experiments/cli/progress.h"
#include "experiments/cli/rank_setup.h"
#include "experiments/cli/study_notices.h"
#include "experiments/cli/version.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

std::string outcome_text(const RunReport& report, const std::string& output) {
  switch (report.outcome) {
    case RunReport::Outcome::found_complete:
      return fmt::format("'{}' is complete already; nothing was left to do", output);
    case RunReport::Outcome::completed_by_another_process:
      return fmt::format("another process has completed '{}'", output);
    case RunReport::Outcome::led_by_rank_0:
      return "done; rank 0 has the results";
    case RunReport::Outcome::computed:
      break;
  }
  return report.progress.resumed == 0 ? std::string()
                                      : fmt::format("resumed: {} of {} layers were finished before",
                                                    report.progress.resumed, report.progress.total);
}

}  // namespace

std::shared_ptr<Selector> make_typed_selector(const SelectorSpec& spec) {
  try {
    return make_selector(spec);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--selector: {}", error.what()));
  }
}

void check_dumps(const std::vector<std::string>& paths) {
  std::error_code missing;  // reported when the dump is opened
  for (std::size_t i = 0; i < paths.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (paths[i] == paths[j] || std::filesystem::equivalent(paths[i], paths[j], missing))
        throw UsageError(fmt::format("'{}' and '{}' are the same dump, expected each once", paths[j], paths[i]));
}

RunReport run_typed_study(Study study, RunOptions options, const GlobalOptions& global,
                          const std::map<SettingKind, std::string>& typed_grids, const std::string& bad_layer_advice,
                          std::chrono::milliseconds time_limit) {
  const RankEnvironment* const ranks = options.ranks ? &options.ranks->environment : nullptr;
  options.device = global.resolved_device(ranks);
  options.threads = global.thread_count(ranks);
  options.program = program_version().program;
  options.git_commit = program_version().git_commit;
  options.command_line = command_line();
  InterruptFlag interrupt;
  if (time_limit.count() > 0) interrupt.set_after(time_limit);
  Progress progress("layers", global.quiet);
  if (ranks != nullptr) progress.notice(rank_text(*ranks));
  if (ranks == nullptr || ranks->rank == 0)
    for (const std::string& notice : study_notices(study, typed_grids)) progress.notice("warning: " + notice);
  StudyObserver observer{
      .started =
          [&](const std::string& device) {
            if (!options.device.notice.empty()) progress.notice(options.device.notice);
            progress.notice(fmt::format("device: {}", device));
          },
      .progress = [&](const StudyProgress& p) { progress.show(p.finished, p.total, p.resumed, p.remark); },
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

  for (const std::string& label : report.summary.dropped_nothing)
    progress.notice(fmt::format(
        "warning: selector '{}' dropped nothing at any setting: it kept every token of every query", label));
  return report;
}

}  // namespace attest
