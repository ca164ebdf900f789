// Streams units of work (dump, sample, layer) from the dumps through a LayerStudy into the folder of partial results.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/results/partial_results.h"
#include "analysis/run/layer_reader.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

struct StudyProgress {
  std::size_t finished = 0;  ///< units finished, including those of earlier runs
  std::size_t resumed = 0;   ///< units that were finished before this run
  std::size_t total = 0;
};

/// Callbacks, called on the thread that runs the study.
struct StudyObserver {
  std::function<void(const std::string& device)> started;
  std::function<void(const StudyProgress&)> progress;
  std::function<void(const std::string&)> notice;
  /// What the error about a layer that cannot be studied advises, where layers are not left out.
  std::string bad_layer_advice = "the same command with --skip-bad-layers --resume leaves this layer out";
};

/// Computes and stores every unit of `plan` that `partial` lacks. The next layer is read while others are studied, and
/// results are stored on a third thread. The number of layers in memory is LayerStudy::most_submitted() + 1; less, but
/// at least two, if these would take more than a quarter of the machine's memory. Units that other processes have
/// claimed are waited for at the end. Returns early if another process finished the whole study and removed the folder.
/// `dumps` are those of the plan. Throws InputError for a layer with NaN or Inf (naming sample, layer, head and token),
/// Interrupted if told to stop.
void stream_study(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps, LayerStudy& layer_study,
                  PartialResults& partial, const StreamOptions& options, const StudyObserver& observer);

}  // namespace attest
