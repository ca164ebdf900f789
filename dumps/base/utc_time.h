// Formats points in time as text.
#pragma once

#include <chrono>
#include <string>

namespace attest {

/// ISO 8601, UTC, to the second: "2025-01-31T12:00:00Z".
std::string utc_time(std::chrono::system_clock::time_point at);

}  // namespace attest
