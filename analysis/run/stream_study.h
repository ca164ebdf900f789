// The study over dumps: streams units of work (dump, sample, layer) through a LayerStudy into the folder of partial
// results.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/layer/layer_study.h"
#include "analysis/results/partial_results.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/estimate_reader.h"

namespace attest {

struct StudyProgress {
  std::size_t finished = 0;  ///< units, those of earlier runs included
  std::size_t resumed = 0;   ///< of these, found finished
  std::size_t total = 0;
};

struct StreamOptions {
  int reading_threads = 4;
  std::span<const EstimateReader> estimates{};  ///< of the selectors that take theirs from files
  const std::atomic<bool>* stop = nullptr;      ///< set when the user interrupts
};

/// Called on the thread that runs the study.
struct StudyObserver {
  std::function<void(const std::string& device)> started;
  std::function<void(const StudyProgress&)> progress;
  std::function<void(const std::string&)> notice;
};

/// Computes and stores every unit of `plan` that `partial` lacks; while some layers are under study the next is read.
/// In memory are as many as the LayerStudy works on and one more, or only two where a quarter of the machine's memory
/// does not hold more. Units that other processes have claimed are waited for at the end; returns early when one of
/// them has finished the whole study and removed the folder. `dumps` as in the plan. Throws InputError at a layer with
/// NaN or Inf (naming sample, layer, head and token), Interrupted when told to stop.
void stream_study(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps, LayerStudy& layer_study,
                  PartialResults& partial, const StreamOptions& options, const StudyObserver& observer);

}  // namespace attest
