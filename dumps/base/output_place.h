// Checks the place of an output file before it is written.
#pragma once

#include <filesystem>
#include <string>

namespace attest {

/// The folder that a file is in; "." for a name alone.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// Throws OutputError unless `target` is a regular file, a link to one, or not there. A rename would replace anything
/// else, for instance /dev/null. Names that are too long for a file are told here, before the work.
void require_replaceable(const std::string& target);

/// Throws OutputError unless the folder of `target` is there, or if a folder above it cannot be entered.
void require_folder_of(const std::string& target);

/// Throws OutputError if the file system of `target` has fewer than `bytes` free. Passes where that is not known.
void require_free_space(const std::string& target, double bytes);

}  // namespace attest
