// Runs gnuplot on a script, without a shell and with a time limit. An error is reported in one sentence.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "plots/code.h"

namespace attest {

struct GnuplotRun {
  enum class Status {
    done,
    not_installed,
    failed,      ///< gnuplot reported an error
    not_written  ///< gnuplot reported nothing, but a picture is missing or truncated
  };

  Status status = Status::done;
  std::string message;  ///< one sentence; empty when done
};

/// For each picture.
inline constexpr std::chrono::seconds kGnuplotTimeLimit{120};

/// Runs `gnuplot -e COMMAND SCRIPT` in `folder`, where the script reads its data and writes its pictures. gnuplot is
/// found through PATH; its stdout is discarded. One call at a time: end_gnuplot() ends one gnuplot.
GnuplotRun run_gnuplot(const std::filesystem::path& folder, const std::string& script, const Gnuplot& command,
                       std::chrono::milliseconds time_limit = kGnuplotTimeLimit);

/// Kills the gnuplot that is running, and lets run_gnuplot start no other. For the thread that ends the process.
void end_gnuplot();

}  // namespace attest
