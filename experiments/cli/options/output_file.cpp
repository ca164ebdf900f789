// Refuses an output that would destroy an input, or that could not be written at the end.
#include "experiments/cli/options/output_file.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/output_place.h"
#include "dumps/base/printable.h"

namespace attest {

namespace fs = std::filesystem;

void refuse_taken(const std::string& output, std::span<const std::string> others) {
  std::error_code ignored;
  for (const std::string& other : others)
    if (!output.empty() && (output == other || fs::equivalent(output, other, ignored)))
      throw UsageError(
          printable(fmt::format("{} is an input or another output: give each output a name of its own", output)));
}

void check_output_file(const std::string& output, std::span<const std::string> others, const OutputRules& rules) {
  if (output.empty()) return;
  refuse_taken(output, others);
  std::error_code ignored;
  require_replaceable(output);
  require_folder_of(output);
  if (!rules.replace && fs::exists(output, ignored))
    throw OutputError(printable(fmt::format("{} is there already: --force replaces it", output)));
}

}  // namespace attest
