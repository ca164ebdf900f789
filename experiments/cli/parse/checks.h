// Checks of the values of options.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// A check of the values that an option takes.
struct Check {
  std::string expected;                            ///< "a whole number from 0 to 8"
  std::function<bool(std::string& text)> accepts;  ///< may write the value as the option's type has it: 10% as 0.1
  std::string shown;                               ///< in the help, behind the type

  /// "'TEXT' is not EXPECTED"; empty if the text is accepted.
  std::string complaint_about(std::string& text) const;
};

/// A decimal whole number: "a whole number from 0 to 8"; without `maximum` "a whole number of at least 1".
Check whole_number(std::int64_t minimum, std::int64_t maximum = std::numeric_limits<std::int64_t>::max());

/// A whole number of 64 bits without sign.
Check seed_number();

enum class Infinity : std::uint8_t { refused, accepted };

/// A number of at least 0.
Check nonnegative_number(Infinity infinity = Infinity::refused);

/// A share such as 10% or 0.1, from 0 to 1; becomes the number. (1 is all, 1% is 0.01.)
Check share_of_one();

/// A number of tokens such as 4096 or 128K (131072); becomes the number.
Check token_count();

/// Parses such a number from 1 to `most`. Empty for other text.
std::optional<std::int64_t> parse_token_count(std::string_view text, std::int64_t most);

/// A size such as 16GiB; becomes the number of bytes.
Check byte_size();

/// A time such as 90, 1:30 or 1:00:00; becomes the number of milliseconds.
Check duration();

/// Seconds ("90", "0.5"), minutes and seconds ("1:30") or hours, minutes and seconds ("1:00:00"): more than 0, at most
/// a year. Empty for other text.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

/// A length such as 3.25in, 84mm, 8.4cm or 240pt, from 1 to 30 in; becomes the number of inches.
Check length_in_inches();

Check one_of(std::vector<std::string> names);

/// Any text but an empty one. `expected`: "a grid such as 5,7 or 1:12:0.5".
Check text_that_is(std::string expected);

Check file_name();
Check folder_name();

/// A regular file of at most so many bytes that can be opened. Throws InputError otherwise.
Check readable_file(std::uint64_t max_bytes);

}  // namespace attest
