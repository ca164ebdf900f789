// What a results file says about its own making, and what two runs must agree on to be one study.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/run/input_hashes.h"
#include "analysis/study/study.h"

namespace attest {

/// What decides the data of a study beside the study itself. The number of threads does not.
struct Provenance {
  std::string program;  ///< version
  std::string git_commit;
  std::string device;               ///< "cpu", "cuda"
  std::string precision;            ///< of the arithmetic on that device
  std::vector<InputStatus> inputs;  ///< the study's dumps, then other files; the time of modification decides nothing
};

/// As JSON text: the same text for the same study.
std::string configuration_json(const Study& study, const Provenance& provenance);

/// What a run adds to the configuration.
struct RunRecord {
  std::vector<std::string> command_line;
  std::string device;                     ///< in words: "CPU, 2 threads"
  std::string started, ended;             ///< ISO 8601, UTC; `started` by the first of several runs
  std::vector<std::string> input_hashes;  ///< one per input, by content_hash
  std::vector<UnitKey> left_out;          ///< by --skip-bad-layers
};

/// The `manifest` attribute of a results file. `configuration` from configuration_json().
std::string manifest_json(const Study& study, const Provenance& provenance, const std::string& configuration,
                          const RunRecord& record);

/// Whether a results file with this manifest holds the study of that configuration, so that nothing is left to do.
bool same_study(const std::string& manifest, const std::string& configuration);

}  // namespace attest
