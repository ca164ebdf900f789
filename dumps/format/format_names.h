// What the root's attribute `format` says of a file, and which command takes it.
#pragma once

#include <string_view>

namespace attest {

inline constexpr const char* kDumpFormat = "attention-dump";
inline constexpr int kDumpVersion = 1;
inline constexpr const char* kStudyFormat = "attention-study";
inline constexpr int kStudyVersion = 1;
inline constexpr const char* kPartialStudyFormat = "attention-study-partial";  ///< of study.json in a folder
inline constexpr int kPartialStudyVersion = 2;
inline constexpr const char* kTasksFormat = "attest-tasks";
inline constexpr int kTasksVersion = 1;

/// For readers of another kind: " (this is a dump, for `attest run`)"; empty of a format that is not known.
inline std::string_view format_hint(std::string_view format) {
  if (format == kDumpFormat) return " (this is a dump, for `attest run`)";
  if (format == kStudyFormat) return " (this is a results file of `attest run`, for `attest figures`)";
  if (format == kTasksFormat) return " (these are answers of `attest tasks`, for `attest inspect`)";
  return {};
}

}  // namespace attest
