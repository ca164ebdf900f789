// Whether two descriptions of a study, as JSON, are of the same one, and where they differ, in words.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/json.h"

namespace attest {

/// Name of the hash of parts of an input in the description of a study: InputHashes, sampled_hash().
inline constexpr const char* kSampledHashName = "xxh64_of_samples";

/// Describes the first difference: "selector 1, options, bits = 2, this command has 4". Empty if they are equal.
std::string study_difference(const Json& one, const Json& this_command);

/// What sets a study apart from that of this command, to follow "another study, ": "of other options: selector 1, ...";
/// "of other inputs: ..."; "of another version: ..." if nothing else differs. Empty if they are the same.
std::string kind_of_difference(const Json& one, const Json& this_command);

/// A file or folder holds something else than the study of this command. Base of the errors that say so in terms of
/// --resume, for commands without that option.
struct OtherStudy {
  explicit OtherStudy(std::string text) : found(std::move(text)) {}
  virtual ~OtherStudy() = default;
  std::string found;  ///< what is there, without advice: "'r.h5' holds another study, of other options: ..."
};

/// "'r.h5' holds another study, of other options: ..."
std::string other_study_text(const std::string& place, const std::string& difference);

template <class Kind>
struct OtherStudyError : Kind, OtherStudy {
  OtherStudyError(const std::string& message, std::string found) : Kind(message), OtherStudy(std::move(found)) {}
};

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
/// Each is an OtherStudyError.
void require_same_study(const StudySource& source, const Json& begun, const Json& now);

}  // namespace attest
