// Times on the command line.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace attest {

/// Parses seconds ("90", "0.5"), minutes and seconds ("1:30") or hours, minutes and seconds ("1:00:00"): more than 0,
/// at most a year. Empty for other text.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace attest
