// The text of a configuration file, which is TOML. toml++ reads it; config_text.cpp alone knows it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// One `key = value`.
struct ConfigEntry {
  std::vector<std::string> section;  ///< {"bench", "study"} of [bench.study]; empty before the first section
  std::string key;
  std::vector<std::string> values;  ///< strings without quotes; other values as typed, whole numbers as decimals
  bool is_list = false;             ///< the values stood in [ ]
  int line = 0;                     ///< of the key, counted from 1
};

/// The entries in the order of the text. Throws InputError "PATH, line N, ...: ..." for what is not TOML, for names of
/// more than 8 parts, and for values that no option has: lists of lists or of tables.
std::vector<ConfigEntry> parse_config(std::string_view text, const std::string& path);

}  // namespace attest
