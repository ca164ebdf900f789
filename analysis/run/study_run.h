// One study from dumps to a results file: what `attest run` does, without the command line around it.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "analysis/layer/device.h"
#include "analysis/layer/layer_study.h"
#include "analysis/results/study_results.h"
#include "analysis/run/stream_study.h"
#include "analysis/study/study_plan.h"

namespace attest {

/// A selector of a study and how the results file describes it.
struct RequestedSelector {
  StudySelector study;
  SelectorGroup description;
  std::shared_ptr<Selector> learner{};  ///< the selector once more where it learns from samples first
  bool by_default = false;  ///< nobody named it: left out, with a notice, where a dump's head dimensions do not suit it
};

struct StudyRequest {
  std::vector<std::string> dumps;
  std::string output;
  std::vector<RequestedSelector> selectors;
  StudyChoice choice;
  double salient_delta = 5;
  std::vector<double> lambdas;
  bool skip_bad_layers = false;
  bool resume = false;
  bool force = false;
  Device device;
  int threads = 1;
  std::vector<std::string> command_line;  ///< for the manifest
};

struct StudyReport {
  enum class How { computed, found_complete, completed_by_another_process };
  How how = How::computed;
  StudyProgress progress;
  std::string device;  ///< in words
};

/// Writes request.output, by way of the folder request.output + ".partial". Throws OutputError when the output exists
/// without `force`, UsageError for what does not fit together, InputError, Interrupted when `stop` is set.
StudyReport run_study_request(StudyRequest request, const std::atomic<bool>& stop, const StudyObserver& observer);

}  // namespace attest
