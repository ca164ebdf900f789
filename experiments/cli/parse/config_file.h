// The file of --config: its keys are the long options, in a [section] per command, before which the common options
// stand.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/cli/parse/command.h"
#include "experiments/cli/parse/config_text.h"

namespace attest {

/// Knows after the parsing which options came from the file.
class ConfigFile {
 public:
  explicit ConfigFile(const Command& program) : program_(program) {}

  /// The entries of the file's text, each of which an option takes. Throws InputError for what is not TOML, and
  /// UsageError for an unknown section or key, or a value that the option does not take. Both name file and line.
  std::vector<ConfigEntry> entries(const std::string& text, const std::string& path);

  /// The sentence, with file and line before it if it begins with an option ("--delta: ...") that came from the file.
  std::string located(const std::string& sentence) const;

 private:
  [[noreturn]] void fail(const ConfigEntry& entry, const std::string& sentence) const;
  void refuse_as_argument(const Command& command) const;
  std::string unknown_key(const Command& command, const ConfigEntry& entry, const std::string& section) const;
  void check(const ConfigEntry& entry);

  const Command& program_;
  std::string path_;
  std::map<std::string, int, std::less<>> lines_;  ///< by option
};

}  // namespace attest
