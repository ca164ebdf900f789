// The inputs of a finished study, found again by its manifest.
#pragma once

#include <cstdint>
#include <string>

namespace attest {

/// A dump of a results file, checked against the manifest.
struct FoundInput {
  std::string path;     ///< where it is; empty if it cannot be used
  std::string problem;  ///< why not: "dump.h5 is gone"
  bool hashed = false;  ///< its content hash was compared; else only size and modification time
};

/// Larger inputs are not hashed again: that takes longer than what needs them.
inline constexpr std::uint64_t kMaxHashedBytes = std::uint64_t{2} << 30;

/// Dump number `dump` of the results file at `results_path` with this manifest. It is looked for where the study read
/// it, then beside the results, and hashed by `threads`.
FoundInput find_input(const std::string& manifest, std::size_t dump, const std::string& results_path, int threads,
                      std::uint64_t max_hashed_bytes = kMaxHashedBytes);

}  // namespace attest
