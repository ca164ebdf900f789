// What `attest inspect` prints about a dump: text for people, JSON for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/json.h"
#include "dumps/format/dump_reader.h"
#include "dumps/format/value_check.h"

namespace attest {

/// Result of checking all values of a dump.
struct DumpCheck {
  struct Layer {
    std::size_t sample = 0;  ///< index into DumpInfo::samples
    LayerCheck check;
  };
  std::vector<Layer> layers;  ///< by sample, then by layer number

  /// Layers with NaN, infinity, or values that are not in the keys as they should.
  std::int64_t num_bad_layers() const;
};

/// Is called with the number of checked layers and of all layers. An exception that it throws ends the check.
using CheckProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Reads every value, one layer at a time.
DumpCheck check_dump(const DumpReader& dump, const CheckProgress& progress = {});

/// Bytes of q, k and v once decoded.
std::int64_t value_bytes(const DumpReader& dump, std::size_t sample);
std::int64_t value_bytes(const DumpReader& dump);

/// A value in a table; "-" for NaN.
std::string float_text(float value);

std::string summary_text(const DumpReader& dump);
Json summary_json(const DumpReader& dump);

std::string check_text(const DumpReader& dump, const DumpCheck& check);
Json check_json(const DumpReader& dump, const DumpCheck& check);

/// What is bad in the bad layers of this dump: "NaN or infinity".
std::string_view kinds_of_bad_values(const DumpReader& dump);

/// One sentence that names file and first bad value, for an InputError; empty when there is none.
std::string verdict(const DumpReader& dump, const DumpCheck& check);

/// "contiguous", "compact", "chunked" or "gzip".
std::string_view name_of(Storage storage);

/// Ascending numbers as ranges: "0-31", "0, 4, 8-10"; beyond `max_ranges` the rest is "... (16 in all)".
std::string ranges_text(const std::vector<std::int64_t>& numbers, std::size_t max_ranges = 6);

}  // namespace attest
