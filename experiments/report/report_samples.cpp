// Lists the samples of a study.
#include "experiments/report/report_samples.h"

#include "dumps/base/printable.h"

namespace attest {

std::optional<MetricArray> ReportSample::read(std::string_view label, std::string_view metric) const {
  const auto selector = file->find_selector(label);
  return selector ? file->read(dump, sample, *selector, metric) : std::nullopt;
}

std::vector<ReportSample> samples_of(const ModelStudy& study) {
  std::vector<ReportSample> samples;
  for (const PlacedSample& at : study.samples()) samples.push_back({at.file, at.dump, at.sample, printable(at.title)});
  return samples;
}

}  // namespace attest
