// The lock of the results, at the beginning of a study or after its holder died, and the last step of the study.
#include "analysis/run/results_finish.h"

#include <fmt/core.h>

#include <chrono>
#include <thread>

#include "analysis/run/manifest.h"
#include "analysis/run/patience.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/base/utc_time.h"

namespace attest {
namespace {

constexpr auto kTurnInterval = std::chrono::milliseconds(10);

}  // namespace

ResultsFinish::ResultsFinish(const PreparedStudy& run, PartialResults& partial)
    : run_(run), partial_(partial), assembly_(run.study, run.plan, run.options.with_dense_layers) {
  locked_ = partial_.try_lock_results();
  if (locked_) assembly_.write_to(run_.options.output, partial_.folder());
}

ResultsFinish::Turn ResultsFinish::wait_for_turn(const std::atomic<bool>& stop, const Notice& notice) {
  if (locked_) return Turn::write;
  Patience patience;
  for (; partial_.in_place(); std::this_thread::sleep_for(kTurnInterval)) {
    if (stop) throw Interrupted("interrupted");
    if (partial_.try_lock_results()) {
      locked_ = true;
      assembly_.write_to(run_.options.output, partial_.folder());
      return Turn::fill;
    }
    const std::string holder = patience.whom_to_name([&] { return partial_.holder_of_results(); });
    if (!holder.empty()) notice(fmt::format("waiting for {}, which writes '{}'", holder, run_.options.output));
  }
  return Turn::completed;
}

void ResultsFinish::write(const std::string& device, InputGuard& inputs, const Notice& notice) {
  assembly_.finish(manifest_json(run_.study, run_.provenance, run_.configuration,
                                 {.command_line = run_.options.command_line,
                                  .device = device,
                                  .started = partial_.start_time(),
                                  .ended = utc_time(std::chrono::system_clock::now()),
                                  .input_hashes = inputs.finish(),
                                  .left_out = assembly_.left_out()}));
  // The results are in place, whatever becomes of the folder.
  try {
    PartialResults::remove_own_files(partial_.folder());
  } catch (const Error& error) {
    return notice(error.what());
  }
  if (const std::string foreign = PartialResults::foreign_entry(partial_.folder()); !foreign.empty())
    notice(fmt::format("'{}' stays: '{}' in it does not belong to a study", partial_.folder(), printable(foreign)));
}

}  // namespace attest
