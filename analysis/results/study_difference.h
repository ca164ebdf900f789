// Whether two descriptions of a study, as JSON, are of the same one, and where they differ, in words.
#pragma once

#include <cstdint>
#include <string>

#include "dumps/base/json.h"

namespace attest {

/// Name of the hash of parts of an input in the description of a study: InputHashes, sampled_hash().
inline constexpr const char* kSampledHashName = "xxh64_of_samples";

/// Describes the first difference: "selector 1, options, bits = 2, this command has 4". Empty if they are equal.
std::string study_difference(const Json& one, const Json& this_command);

/// What makes a study this one: all of its description but the paths of its inputs, which processes may know by
/// different names. Equal for equal studies.
std::uint64_t study_identity(const std::string& study_json);
bool is_same_study(const Json& one, const Json& other);

/// Where a study came from, for messages.
struct StudySource {
  std::string folder;  ///< or the file that holds units of it
  std::string begun_by, this_process;
};

/// Throws InputError if an input has other content, naming it and both processes; UsageError for any other difference.
void require_same_study(const StudySource& source, const Json& begun, const Json& now);

}  // namespace attest
