// What a results file says about its own making, and what two runs must agree on to be one study.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/results/study_results.h"
#include "analysis/run/input_hashes.h"
#include "analysis/study/study_plan.h"

namespace attest {

/// Everything that decides the data of a study. The number of threads does not.
struct StudyConfiguration {
  std::string program;  ///< version
  std::string git_commit;
  std::string device;     ///< "cpu", "cuda"
  std::string precision;  ///< of the arithmetic on that device
  std::vector<SelectorGroup> selectors;
  double salient_delta = 0;
  std::vector<double> lambdas;
  bool skip_bad_layers = false;
  std::vector<InputStatus> inputs;  ///< one per dump of the plan; the time of modification decides nothing
};

/// As JSON text: the same text for the same study.
std::string configuration_json(const StudyConfiguration& configuration, const StudyPlan& plan);

struct LeftOutLayer {
  int dump = 0;
  std::string sample;
  int layer = 0;
};

struct Manifest {
  std::vector<std::string> command_line;
  std::string configuration;              ///< from configuration_json
  std::string device;                     ///< in words: "CPU, 2 threads"
  std::string started, ended;             ///< ISO 8601, UTC; `started` by the first of several runs
  std::vector<std::string> input_hashes;  ///< one per input, by content_hash
  std::vector<LeftOutLayer> left_out;     ///< by --skip-bad-layers
};

/// The `manifest` attribute of a results file.
std::string manifest_json(const Manifest& manifest, const StudyConfiguration& configuration);

/// Whether a results file with this manifest holds the study of that configuration, so that nothing is left to do.
bool same_study(const std::string& manifest, const std::string& configuration);

}  // namespace attest
