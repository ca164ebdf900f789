// Judges selectors for a report.
#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/report/report_parts.h"
#include "experiments/validation/verdict_result.h"
#include "experiments/validation/verdict_text.h"

namespace attest {
namespace {

/// Those of the report's files that have the selector for the model, with their hashes.
struct FilesOfSelector {
  std::vector<const ResultsFile*> files;
  std::vector<JudgedFile> hashed;
};

FilesOfSelector files_with(ResultsFiles files, const std::vector<JudgedFile>& hashed, const std::string& model,
                           const std::string& label) {
  FilesOfSelector found;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (files[i]->find_selector(label) &&
        std::ranges::any_of(files[i]->study().dumps, [&](const StudyDump& dump) { return dump.model == model; })) {
      found.files.push_back(files[i]);
      found.hashed.push_back(hashed[i]);
    }
  return found;
}

/// `said`: why there is no verdict; empty if there is one.
std::optional<Judgement> judge_selector(const FilesOfSelector& found, const JudgementOptions& options,
                                        std::string& said) {
  try {
    return judge_results(found.files, options, {}, found.hashed);
  } catch (const UsageError& error) {
    said = error.what();
  } catch (const InputError& error) {
    said = error.what();
  } catch (const NotCertified& error) {
    said = error.what();
  }
  return std::nullopt;
}

}  // namespace

void add_validation_sections(ResultsFiles files, const std::vector<ModelStudy>& studies,
                             const JudgementOptions& options, ReportDrawing& drawing, ReportData& data) {
  check_options(options);
  const std::vector<JudgedFile> hashed = judged_files(files, options.threads);
  int number = 0;
  const auto next_id = [&] { return ++number == 1 ? std::string("validation") : fmt::format("validation-{}", number); };
  for (const ModelStudy& study : studies) {
    bool any = false;
    std::size_t judged = 0, last_judged = 0;
    for (const PooledSelector& selector : study.selectors()) {
      if (selector.group.kind == SettingKind::none) continue;
      any = true;
      JudgementOptions own = options;
      own.model = study.model();
      own.selector = selector.group.label;
      std::string said;
      const std::string id = next_id();
      const std::string of = fmt::format("{} on {}", printable(selector.group.label), printable(study.model()));
      PageSection section{.id = id, .title = {}};
      if (const std::optional<Judgement> judgement =
              judge_selector(files_with(files, hashed, own.model, own.selector), own, said)) {
        ++judged;
        last_judged = data.figures.size();
        section = result_section(verdict_result(*judgement), id, data.models.size() > 1, drawing);
        data.findings.push_back(section.findings.front());
      } else {
        section.note = fmt::format("Not judged: {}.", printable(said));
        data.findings.push_back({.text = fmt::format("{} is not judged: {}.", of, printable(said))});
      }
      section.title = "Validation: " + of;
      data.figures.push_back(std::move(section));
    }
    if (const std::string together = together_text(judged, options.guarantee); !together.empty()) {
      std::string& note = data.figures[last_judged].note;
      note += fmt::format("{}{}", note.empty() ? "" : " ", together);
      data.findings.push_back(
          {.text = data.models.size() > 1 ? fmt::format("{}: {}", printable(study.model()), together) : together});
    }
    if (!any)
      data.figures.push_back({.id = next_id(),
                              .title = fmt::format("Validation: {}", printable(study.model())),
                              .note = "Not judged: no selector here has settings."});
  }
}

}  // namespace attest
