// What the folder of an unfinished study says about itself (layout: analysis/results/README.md, "While a study runs").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attest {

struct PartialStatus {
  struct Sample {
    std::string dump, name;            ///< path of the dump
    std::vector<std::int64_t> layers;  ///< of the study
    std::vector<std::int64_t> finished;
  };
  std::string folder;
  std::string begun;                   ///< ISO 8601, UTC
  std::string program, device;         ///< version and git commit; "cpu" or "cuda"
  std::vector<std::string> selectors;  ///< labels
  std::vector<Sample> samples;

  std::int64_t num_layers() const;
  std::int64_t num_finished() const;
};

/// Throws InputError if the folder is not that of an unfinished study, or its description is damaged. Whether the files
/// of finished layers are whole is not checked.
PartialStatus read_partial_status(const std::string& folder);

}  // namespace attest
