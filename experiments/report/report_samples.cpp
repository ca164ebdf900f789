// Lists the samples of a model.
#include "experiments/report/report_samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "dumps/base/printable.h"

namespace attest {

std::optional<MetricArray> ReportSample::read(std::string_view label, std::string_view metric) const {
  const auto selector = file->find_selector(label);
  return selector ? file->read(dump, sample, *selector, metric) : std::nullopt;
}

std::vector<ReportSample> samples_of(ResultsFiles files, const std::string& model) {
  std::vector<ReportSample> samples;
  for (const ResultsFile* file : files)
    for (std::size_t d = 0; d < file->study().dumps.size(); ++d) {
      const StudyDump& dump = file->study().dumps[d];
      if (dump.model != model) continue;
      for (std::size_t s = 0; s < dump.samples.size(); ++s) {
        std::string name = printable(dump.samples[s].name);
        const auto taken = [&](const ReportSample& other) { return other.name == name; };
        if (std::ranges::any_of(samples, taken))
          name = fmt::format("{} of {}", name, printable(std::filesystem::path(dump.path).filename().string()));
        const std::string stem = name;
        for (int n = 2; std::ranges::any_of(samples, taken); ++n) name = fmt::format("{} ({})", stem, n);
        samples.push_back({file, d, s, name});
      }
    }
  return samples;
}

}  // namespace attest
