// The claim to write the results file, at the beginning of a study or after its holder died.
#include "analysis/run/results_finish.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(10);

}  // namespace

ResultsFinish::ResultsFinish(const Study& study, const StudyPlan& plan, bool with_dense_layers, PartialResults& partial,
                             const std::string& output)
    : plan_(plan), partial_(partial), output_(output), assembly_(study, plan, with_dense_layers) {
  claim_ = partial_.claim_finish();
  if (!partial_.in_place()) claim_.reset();
  if (claim_) assembly_.write_to(output_, partial_.folder());
}

bool ResultsFinish::wait_to_write(const std::atomic<bool>& stop) {
  const bool filled = claim_.has_value();
  while (!claim_) {
    claim_ = partial_.claim_finish();
    if (!partial_.in_place()) {
      claim_.reset();
      return false;
    }
    if (claim_) break;
    if (stop) throw Interrupted("interrupted");
    std::this_thread::sleep_for(kPollInterval);
  }
  if (!assembly_.complete()) throw std::logic_error("the study ended before all of its units were finished");
  if (!filled) {
    assembly_.write_to(output_, partial_.folder());
    for (const UnitKey& unit : plan_.units) assembly_.write(partial_.load_finished(unit));
  }
  return true;
}

}  // namespace attest
