// The file of --config: its keys are the long options, in a [section] per command, before which the common options
// stand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace attest {

/// Makes `app` read the file of its option --config, and knows afterwards which options came from it.
class ConfigFile {
 public:
  /// Both must outlive the parsing. Throws, while `app` parses: InputError for a file that cannot be read or is not
  /// TOML; UsageError for an unknown section or key, or a value that the option does not take. Both name file and line.
  explicit ConfigFile(CLI::App& app);

  /// The sentence, with file and line before it if it begins with an option ("--delta: ...") that came from the file.
  std::string located(const std::string& sentence) const;

 private:
  class Reader;
  struct Origins {
    std::string path;
    std::map<std::string, int, std::less<>> lines;  ///< by option
  };
  std::shared_ptr<Origins> origins_;
};

}  // namespace attest
