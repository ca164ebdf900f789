// The inputs that the manifest of a results file names.
#pragma once

#include <string>
#include <vector>

namespace attest {

/// Name of the hash in manifests. A plain XXH64 takes longer than the study of a large dump on a GPU, because it needs
/// the bytes in order. This one can be shared among threads: it is the XXH64 of a text that has the XXH64 of each block
/// of 1 MiB as one line of 16 hexadecimal digits. A command gives the same digits:
/// `split -b 1M --filter='xxhsum -H1 | cut -c1-16' FILE | xxhsum -H1`.
inline constexpr const char* kContentHashName = "xxh64_of_1MiB";

struct ManifestInput {
  std::string path;
  std::string content_hash;  ///< "" if the manifest has none
};

/// The dumps of the study in the order of ResultsFile::study().dumps, then other files. Fewer or none if the manifest
/// does not have them: manifests are untrusted.
std::vector<ManifestInput> manifest_inputs(const std::string& manifest);

}  // namespace attest
