// Streams units of work (dump, sample, layer) from the dumps through layer studies to where results are kept.
#pragma once

#include <span>
#include <string>

#include "analysis/layer/layer_study.h"
#include "analysis/run/layer_reader.h"
#include "analysis/run/study_tally.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study_plan.h"
#include "dumps/format/dump_reader.h"

namespace attest {

/// Computes and stores the units of `queue`. Each layer study, one for a GPU, has a pipeline of its own: the next layer
/// is read while others are studied, and results are stored on others. The number of layers in memory is
/// LayerStudy::layers_at_once() for each pipeline; less, but at least two, if these would take more than a quarter of
/// available_memory(). Returns when the queue has nothing left. `dumps` are those of the plan. Throws InputError
/// for a layer with NaN or Inf (naming sample, layer, head and token), Interrupted if told to stop. An error of one
/// pipeline stops the others; the first one is thrown. With StreamOptions::await_device the place of a layer study may
/// be empty until its device has started.
void stream_study(const Study& study, const StudyPlan& plan, std::span<const DumpReader> dumps,
                  std::span<LayerStudy* const> layer_studies, UnitQueue& queue, const StreamOptions& options,
                  const StudyObserver& observer);

/// The devices in words: "NVIDIA H200 (cuda:0), NVIDIA H200 (cuda:1)".
std::string devices_text(std::span<LayerStudy* const> layer_studies);

}  // namespace attest
