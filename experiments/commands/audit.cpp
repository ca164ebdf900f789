// attest audit: whether what an engine computed is what attention, its cache or its selector predicts.
#include <fmt/core.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/audit/dump_audit.h"
#include "analysis/study/study_plan.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"
#include "experiments/audit/audit_report.h"
#include "experiments/cli/options/selector_grids.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/selector_text.h"

namespace attest {
namespace {

struct AuditCommand {
  std::string dump;
  SelectorGrids selector;
  StudyChoiceText choice;
  double roundings = kRoundings;
  std::uint64_t allowed_memory = 0;
};

/// The computation that the engine says it does.
struct Expected {
  std::shared_ptr<Selector> selector;
  Setting setting;
  std::string text;
};

/// The selector of --selector at its one setting; none without that option.
std::optional<Expected> named_selector(const SelectorGrids& options) {
  const std::vector<StudySelector> chosen = chosen_selectors(options);
  if (options.selectors.empty()) {
    for (const auto& [kind, grid] : options.grids)
      if (!grid.empty())
        throw UsageError(fmt::format("--{} is a setting of --selector, which is not given", name_of(kind)));
    return std::nullopt;
  }
  const StudySelector& selector = chosen.front();
  const std::string kind(name_of(selector.kind));
  if (chosen.size() > 1)
    throw UsageError("--selector is given several times, expected one: the output of an engine is that of one");
  if (selector.grid.size() != 1)
    throw UsageError(fmt::format("--selector: '{}' has {} settings, expected one: give --{} a number", selector.label,
                                 selector.grid.size(), kind));
  if (!selector.selector->calibration_samples().empty() || !selector.selector->estimate_sources().empty())
    throw UsageError(
        fmt::format("--selector: '{}' reads other samples or files of estimates, which attest audit does "
                    "not: expected another selector",
                    selector.label));
  const std::string setting =
      selector.kind == SettingKind::none ? "" : fmt::format(" at {} {}", kind, selector.setting_labels.front());
  return Expected{selector.selector, selector.grid.front(), selector.label + setting};
}

/// The cache that the dump says its engine has; exact attention without one.
Expected selector_of_dump(const DumpInfo& dump) {
  SelectorSpec spec;
  const std::string text = dump.kv_cache.empty() ? "exact" : "kv_cache:" + dump.kv_cache;
  try {
    if (const std::string wrong = parse_selector_text(text, spec); !wrong.empty()) throw UsageError(wrong);
    Expected expected{make_selector(spec), {}, dump.kv_cache.empty() ? "exact attention" : text};
    expected.selector->check(dump.shape.kv());
    return expected;
  } catch (const UsageError& error) {
    throw InputError(fmt::format("{}: /: attribute 'kv_cache' is '{}', expected options of the selector kv_cache: {}",
                                 dump.path, excerpt(dump.kv_cache), error.what()));
  }
}

Study chosen_part(const AuditCommand& options) {
  Study study;
  study.choice = options.choice.parse();
  return study;
}

void run_audit(const AuditCommand& options, const GlobalOptions& global) {
  if (global.device != "auto" && global.device != "cpu")
    throw UsageError(fmt::format("--device: '{}', expected auto or cpu: attest audit has no CUDA code", global.device));
  const std::optional<Expected> named = named_selector(options.selector);
  Study study = chosen_part(options);
  const DumpReader dump(options.dump, options.allowed_memory);
  const DumpInfo& info = dump.info();
  const Expected expected = named ? *named : selector_of_dump(info);
  expected.selector->check(info.shape.kv());
  const DumpInfo* dumps[] = {&info};
  const StudyPlan plan = plan_study(dumps, study);
  Progress progress("layers", global.quiet, kSilentSeconds);
  for (const std::string& notice : plan.notices) progress.notice(notice);
  const AuditOptions how{.expected = {*expected.selector, expected.setting},
                         .of_dump = !named,
                         .roundings = options.roundings,
                         .threads = global.thread_count()};
  const DumpAudit audit =
      audit_dump(dump, plan, how, [&](std::size_t done, std::size_t total) { progress.show(done, total, 0); });
  progress.end();
  const AuditReport report{.dump = info,
                           .audit = audit,
                           .expected = expected.text,
                           .device = fmt::format("CPU, {} thread{}", how.threads, how.threads == 1 ? "" : "s"),
                           .roundings = options.roundings};
  if (global.json)
    std::cout << audit_json(report).dump(2) << '\n';
  else
    std::cout << audit_text(report);
  std::cout.flush();
  if (!audit.agrees()) throw NotCertified("");
}

}  // namespace

void add_audit(Command& program, const GlobalOptions& global) {
  const auto options = std::make_shared<AuditCommand>();
  Command& command = program.add_command(
      "audit", "Whether an engine computed what its attention should: exit 0 agrees within rounding, 3 does not");
  command.option("DUMP", options->dump, "Attention dump with the engine's output").required();
  add_selector_options(command, options->selector);
  add_study_choice(command, options->choice);
  command
      .option("--roundings", options->roundings,
              "Units of the element type that rounding may move an output, relative to its size")
      .takes(nonnegative_number())
      .shows_default()
      .type("X");
  command
      .option("--allow-memory", options->allowed_memory,
              "Memory that a layer may take (default: 4GiB, or 16 times the dump's bytes on disk)")
      .takes(byte_size())
      .type("SIZE");
  command.footer(
      "What is expected is exact attention, or the cache that the dump's attribute kv_cache names; --selector names "
      "another selector, at one setting.");
  command.on_run([options, &global] { run_audit(*options, global); });
}

}  // namespace attest
