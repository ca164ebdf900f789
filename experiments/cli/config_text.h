// Parses the text of a configuration file: the part of TOML that holds options. CLI11's own reader accepts nearly
// anything, and does not say where an error is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// One line `key = value`.
struct ConfigEntry {
  std::vector<std::string> section;  ///< {"bench", "study"} of [bench.study]; empty before the first section
  std::string key;
  std::vector<std::string> values;  ///< strings without quotes; numbers, true and false as typed
  bool is_list = false;             ///< the values stood in [ ]
  int line = 0;                     ///< counted from 1
};

/// Comments, [sections], and keys with a "string", a 'string', a number, true, false, or a [list] of these, which may
/// go on over lines. Throws InputError "PATH, line N: ..." for anything else, and for a section or a key that is there
/// twice.
std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& path);

}  // namespace attest
