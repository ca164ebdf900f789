// Excludes calibration samples from a study and feeds them to the selectors.
#include "analysis/study/calibration.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "dumps/base/error.h"
#include "dumps/format/value_check.h"

namespace attest {

void leave_out_calibration_samples(Study& study) {
  for (const StudySelector& learner : study.selectors)
    for (const std::string& sample : learner.selector->calibration_samples()) {
      if (study.dumps.size() > 1)
        throw UsageError(fmt::format("selector '{}' learns from sample '{}', expected one dump, given {}",
                                     learner.label, sample, study.dumps.size()));
      if (std::ranges::find(study.choice.samples, sample) != study.choice.samples.end())
        throw UsageError(fmt::format("selector '{}' learns from sample '{}', so --samples must not ask for it",
                                     learner.label, sample));
      study.choice.left_out.push_back(sample);
    }
}

void calibrate(const Study& study, const StudyPlan& plan, const DumpReader& dump, const std::atomic<bool>* stop) {
  std::set<int> layers;
  for (const UnitKey& unit : plan.units) layers.insert(unit.layer);
  AttentionLayer layer;
  for (const StudySelector& learner : study.selectors)
    for (const std::string& name : learner.selector->calibration_samples()) {
      const std::vector<SampleInfo>& samples = dump.info().samples;
      const auto sample = std::ranges::find(samples, name, &SampleInfo::name);
      for (int number : sample->layers) {
        if (!layers.contains(number)) continue;
        if (stop != nullptr && *stop) throw Interrupted("interrupted");
        if (!dump.read_layer(static_cast<std::size_t>(sample - samples.begin()), number, layer))
          throw InputError(fmt::format("{}: sample '{}', which selector '{}' learns from, {}", dump.info().path, name,
                                       learner.label, first_bad_value(check_values(layer))));
        learner.selector->calibrate(layer);
      }
    }
}

}  // namespace attest
