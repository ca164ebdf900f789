// Checks of the values of options. Each refuses a value with "'TEXT' is not EXPECTED", before which CLI11 puts the
// option's name. They are for CLI::Option::transform: whole numbers are made plain, since CLI11 takes 010 for octal.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace CLI {
class Validator;
}

namespace attest {

/// A decimal whole number. Without `most`: "a whole number of at least LEAST".
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// A whole number of 64 bits without sign.
CLI::Validator seed_number();

enum class Infinity : std::uint8_t { refused, accepted };

/// A number of at least 0.
CLI::Validator nonnegative_number(Infinity infinity = Infinity::refused);

/// A share such as 10% or 0.1, from 0 to 1; becomes the number. (1 is all, 1% is 0.01.)
CLI::Validator share_of_one();

/// A number of tokens such as 4096 or 128K (131072); becomes the number.
CLI::Validator token_count();

/// A size such as 16GiB; becomes the number of bytes.
CLI::Validator byte_size();

/// A time such as 90, 1:30 or 1:00:00; becomes the number of milliseconds.
CLI::Validator duration();

/// A length such as 3.25in, 84mm, 8.4cm or 240pt, from 1 to 30 in; becomes the number of inches.
CLI::Validator length_in_inches();

CLI::Validator one_of(std::vector<std::string> names);

/// Any text but an empty one. `expected`: "a grid such as 5,7 or 1:12:0.5".
CLI::Validator text_that_is(std::string expected);

/// A regular file of at most so many bytes that can be opened. Throws InputError otherwise.
CLI::Validator readable_file(std::uint64_t most_bytes);

}  // namespace attest
