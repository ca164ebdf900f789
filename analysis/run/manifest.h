// The manifest of a results file, and the configuration that two runs must share to belong to one study.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/run/input_hashes.h"
#include "analysis/study/study.h"

namespace attest {

/// What determines the results in addition to Study. The number of threads does not.
struct Provenance {
  std::string program;  ///< version
  std::string git_commit;
  std::string device;                ///< "cpu", "cuda"
  std::string precision;             ///< of the arithmetic on that device
  std::vector<InputStatus> inputs;   ///< the study's dumps, then other files; modification times are ignored
  std::vector<std::string> sampled;  ///< sampled_hash() of each
  std::string head_weights{};        ///< the last of the inputs if it holds head weights; empty: none does
};

/// Everything that determines the results of a layer, as JSON text. Equal studies give equal texts.
/// Study::skip_bad_layers is not in it: a study that a bad layer has stopped may go on without that layer.
std::string configuration_json(const Study& study, const Provenance& provenance);

/// What the manifest records about a run in addition to the configuration.
struct RunRecord {
  std::vector<std::string> command_line;
  std::string device;                     ///< for instance "CPU, 2 threads"
  std::string started, ended;             ///< ISO 8601, UTC; `started` is the start of the first run
  std::vector<std::string> input_hashes;  ///< one per input, by content_hash
  std::vector<UnitKey> left_out;          ///< by --skip-bad-layers
};

/// The `manifest` attribute of a results file. `configuration` from configuration_json().
std::string manifest_json(const Study& study, const Provenance& provenance, const std::string& configuration,
                          const RunRecord& record);

/// Whether a results file with this manifest holds the complete study of that configuration, under whatever names the
/// inputs had. Layers may have been left out only if `skip_bad_layers`.
bool same_study(const std::string& manifest, const std::string& configuration, bool skip_bad_layers);

/// What differs where they are not the same: kind_of_difference().
std::string kind_of_other_study(const std::string& manifest, const std::string& configuration);

}  // namespace attest
