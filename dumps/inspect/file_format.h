// Which kind of file an HDF5 file says it is.
#pragma once

#include <string>

namespace attest {

inline constexpr const char* kDumpFormat = "attention-dump";
inline constexpr const char* kStudyFormat = "attention-study";
inline constexpr const char* kTasksFormat = "attest-tasks";

/// The root's attribute `format`; empty if there is none. Throws InputError if the file cannot be read.
std::string file_format(const std::string& path);

}  // namespace attest
