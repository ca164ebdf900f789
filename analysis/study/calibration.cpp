// Leaving calibration samples out, and reading them.
#include "analysis/study/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dumps/base/error.h"
#include "dumps/value_check.h"

namespace attest {

StudyChoice without_calibration_samples(StudyChoice choice, std::span<const Learner> learners, std::size_t num_dumps) {
  for (const Learner& learner : learners)
    for (const std::string& sample : learner.selector->calibration_samples()) {
      if (num_dumps > 1)
        throw UsageError(fmt::format("selector '{}' learns from sample '{}', expected one dump, given {}",
                                     learner.label, sample, num_dumps));
      if (std::find(choice.samples.begin(), choice.samples.end(), sample) != choice.samples.end())
        throw UsageError(fmt::format("selector '{}' learns from sample '{}', so --samples must not ask for it",
                                     learner.label, sample));
      choice.left_out.push_back(sample);
    }
  return choice;
}

void calibrate(std::span<const Learner> learners, const DumpReader& dump, const StudyPlan& plan) {
  std::set<int> layers;
  for (const UnitKey& unit : plan.units) layers.insert(unit.layer);
  AttentionLayer layer;
  for (const Learner& learner : learners)
    for (const std::string& name : learner.selector->calibration_samples()) {
      const std::vector<SampleInfo>& samples = dump.info().samples;
      const auto sample =
          std::find_if(samples.begin(), samples.end(), [&](const SampleInfo& s) { return s.name == name; });
      for (int number : sample->layers) {
        if (!layers.contains(number)) continue;
        if (!dump.read_layer(static_cast<std::size_t>(sample - samples.begin()), number, layer))
          throw InputError(fmt::format("{}: sample '{}', which selector '{}' learns from, {}", dump.info().path, name,
                                       learner.label, first_bad_value(check_values(layer))));
        learner.selector->calibrate(layer);
      }
    }
}

}  // namespace attest
