// Runs gnuplot on a script: no shell, a time limit, and what went wrong in one sentence.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace attest {

struct GnuplotRun {
  enum class Status { done, not_installed, failed };

  Status status = Status::done;
  std::string message;  ///< one sentence unless done
};

inline constexpr std::chrono::seconds kGnuplotTimeLimit{60};

/// Runs `gnuplot -e COMMAND SCRIPT` in `folder`, where the script finds its data and leaves its pictures. gnuplot is
/// looked up in PATH; whatever it prints on stdout is dropped.
GnuplotRun run_gnuplot(const std::filesystem::path& folder, const std::string& script, const std::string& command,
                       std::chrono::milliseconds time_limit = kGnuplotTimeLimit);

/// `text` as a gnuplot string constant. Control characters become spaces; nothing in it is interpreted.
std::string gnuplot_quoted(std::string_view text);

}  // namespace attest
