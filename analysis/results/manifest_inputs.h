// The inputs that the manifest of a results file names.
#pragma once

#include <string>
#include <vector>

namespace attest {

struct ManifestInput {
  std::string path;
  std::string content_hash;  ///< "" if the manifest has none
};

/// The dumps of the study in the order of ResultsFile::study().dumps, then other files. Fewer or none if the manifest
/// does not have them: manifests are untrusted.
std::vector<ManifestInput> manifest_inputs(const std::string& manifest);

}  // namespace attest
