// Adds units to the results file as they come, and to the summary in the order of the plan.
#include "analysis/run/results_assembly.h"

#include <algorithm>
#include <utility>

namespace attest {

ResultsAssembly::ResultsAssembly(const Study& study, const StudyPlan& plan, bool with_dense_layers)
    : study_(study), plan_(plan), with_dense_layers_(with_dense_layers), summary_(study, with_dense_layers) {}

void ResultsAssembly::add(const UnitKey& unit, const LayerResults& results) {
  if (writer_) writer_->add(results);
  SummaryBuilder own(study_, with_dense_layers_);
  own.add(results);
  const std::lock_guard lock(mutex_);
  if (!results.done) left_out_.push_back(unit);
  waiting_.emplace(unit, std::move(own));
  // Sums of floating-point numbers depend on their order, so a unit waits for those before it.
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == plan_.units[next_]; ++next_) {
    summary_.merge(first->second);
    first = waiting_.erase(first);
  }
}

bool ResultsAssembly::complete() const {
  const std::lock_guard lock(mutex_);
  return next_ == plan_.units.size();
}

std::vector<UnitKey> ResultsAssembly::left_out() const {
  const std::lock_guard lock(mutex_);
  std::vector<UnitKey> units = left_out_;
  std::ranges::sort(units);
  return units;
}

}  // namespace attest
