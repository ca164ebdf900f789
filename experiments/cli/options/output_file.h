// The file that a command writes, checked before the work.
#pragma once

#include <span>
#include <string>

namespace attest {

struct OutputRules {
  bool replace = false;  ///< --force
};

/// Throws UsageError if `output` is one of `others`, or a link to one of them. An empty name is no file.
void refuse_taken(const std::string& output, std::span<const std::string> others);

/// Throws UsageError if `output` is one of `others`, the files that the command reads or writes besides, or a link to
/// one of them. Throws OutputError if its folder is missing, if it is no regular file, or if it is there and not to be
/// replaced. An empty name is no file.
void check_output_file(const std::string& output, std::span<const std::string> others, const OutputRules& rules);

}  // namespace attest
