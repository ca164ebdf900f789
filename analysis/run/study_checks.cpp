// Checks of a study against the memory that it may take and the shapes of its dumps.
#include "analysis/run/study_checks.h"

#include <fmt/format.h>

#include "analysis/metrics/metric.h"
#include "analysis/results/axes.h"
#include "dumps/base/error.h"

namespace attest {

void check_memory(const Study& study, const StudyPlan& plan, const std::vector<DumpReader>& readers) {
  std::uint64_t per_cell = 0, settings_of_all = 0;
  const auto add = [&](std::uint64_t settings) {
    for (const Metric& metric : all_metrics())
      per_cell += sizeof(float) * (has_settings(metric.info.axes) ? settings : 1);
  };
  for (const StudySelector& selector : study.selectors) {
    add(selector.grid.size());
    settings_of_all += selector.grid.size();
  }
  constexpr std::uint64_t kCopies = 2;  // of results: being computed, being stored
  for (const UnitKey& unit : plan.units) {
    const StudyDump& dump = study.dumps[unit.dump];
    const StudySample& sample = dump.samples[unit.sample];
    const std::uint64_t queries = sample.query_positions.size(), tokens = sample.span_tokens.size();
    const std::uint64_t cells = queries * static_cast<std::uint64_t>(dump.shape.num_query_heads);
    readers[unit.dump].check_memory(plan.places[unit.dump][unit.sample].index, unit.layer,
                                    kCopies * (per_cell * cells + sizeof(float) * settings_of_all * queries * tokens));
  }
}

void fit_selectors(Study& study, const std::vector<DumpReader>& readers, const StudyObserver& observer) {
  std::erase_if(study.selectors, [&](const StudySelector& chosen) {
    try {
      for (const DumpReader& reader : readers)
        chosen.selector->check(reader.info().shape.head_dim, reader.info().shape.value_dim);
      return false;
    } catch (const UsageError& error) {
      if (!chosen.by_default) throw;
      observer.notice(fmt::format("'{}' is left out: {}", chosen.label, error.what()));
      return true;
    }
  });
}

}  // namespace attest
