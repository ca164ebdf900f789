// Progress of a long command: a bar on a terminal, an occasional line elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace attest {

/// "12 of 32 layers, 3.1 layers/s, 0:07 left". Of the `finished` units, `done_here` were done in `seconds`; the others
/// had been done before.
std::string progress_text(std::size_t finished, std::size_t total, std::size_t done_here, double seconds,
                          const std::string& unit);

/// The silence of commands that are mostly done within seconds.
inline constexpr std::chrono::seconds kSilentSeconds{3};

class Progress {
 public:
  /// Writes to stderr, or nothing when `quiet`, and nothing in the first `silent` seconds. `unit` in the plural:
  /// "layers".
  Progress(std::string unit, bool quiet, std::chrono::seconds silent = {});
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t finished, std::size_t total, std::size_t found_done);

  /// Ends the line of the bar.
  void end();

  /// Prints a line of its own above the bar.
  void notice(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;

  std::string unit_;
  bool quiet_ = false;
  std::chrono::seconds silent_{};
  bool terminal_ = false;
  bool bar_shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_shown_{};
};

}  // namespace attest
