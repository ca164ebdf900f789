// What `attest inspect` tells of a dump, as text for people and JSON for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dumps/format/dump_reader.h"
#include "dumps/format/value_check.h"

namespace attest {

/// The values of a whole dump.
struct DumpCheck {
  struct Layer {
    std::size_t sample = 0;  ///< index into DumpInfo::samples
    LayerCheck check;
  };
  std::vector<Layer> layers;  ///< by sample, then by layer number

  std::int64_t num_bad_layers() const;  ///< those with NaN or infinity
};

/// Layers looked at so far, and all of them; what it throws ends the check.
using CheckProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Reads every value, one layer at a time.
DumpCheck check_dump(const DumpReader& dump, const CheckProgress& progress = {});

/// Bytes of q, k and v once decoded.
std::int64_t value_bytes(const DumpReader& dump, std::size_t sample);
std::int64_t value_bytes(const DumpReader& dump);

std::string summary_text(const DumpReader& dump);
nlohmann::ordered_json summary_json(const DumpReader& dump);

std::string check_text(const DumpReader& dump, const DumpCheck& check);
nlohmann::ordered_json check_json(const DumpReader& dump, const DumpCheck& check);

/// One sentence that names file and first bad value, for an InputError; empty when every value is finite.
std::string verdict(const DumpReader& dump, const DumpCheck& check);

/// Ascending numbers as ranges: "0-31", "0, 4, 8-10"; beyond `most` ranges the rest is "... (16 in all)".
std::string ranges_text(const std::vector<std::int64_t>& numbers, std::size_t most = 6);

}  // namespace attest
