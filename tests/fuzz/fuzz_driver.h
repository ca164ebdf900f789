// Runs a reader on many made inputs in a process that is watched: a crash, an endless loop and a swelling memory are
// found, and the input that caused them is kept. HDF5 files are made in another process, whose memory HDF5 may corrupt
// when it writes what it should not (its scale-offset filter does).
#pragma once

#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace attest::fuzz {

struct DriverOptions {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;    ///< number of the first input
  std::uint64_t runs = 0;     ///< inputs; 0: as many as the time allows
  double seconds = 0;         ///< 0: as long as the inputs take
  double most_seconds = 10;   ///< of one input, of the processor; six times as many on the clock
  double most_gib = 2;        ///< resident memory of the process and of its children
  bool guarded = false;       ///< HDF5 files are read in children, as the program does, and not in the worker itself
  std::string failures = "";  ///< folder for the inputs that failed; empty: that for temporary files
};

struct DriverReport {
  std::uint64_t accepted = 0, refused = 0;
  std::uint64_t failed = 0;  ///< the run ends after kMostFailures
  /// HDF5 failed on them in the worker, and not in a guarded child, where the program reads them; and those of `loops`
  /// of which a sample was read again.
  std::uint64_t guarded = 0;
  std::uint64_t loops = 0;
  std::uint64_t unmade = 0;  ///< HDF5 crashes on a few of the changes that make an input, before a reader sees it
  double seconds = 0, processor_seconds = 0;  ///< of all processes
  double worst_seconds = 0;
  std::uint64_t worst_input = 0;
  long peak_kib = 0, peak_child_kib = 0;
};
inline constexpr std::uint64_t kMostFailures = 10;

/// The input of a number, the same in every process.
std::string make_input(const TargetInfo& target, std::uint64_t seed, std::uint64_t number);

/// Prints a sentence for each failure, with the file in which its input is kept.
DriverReport drive(const TargetInfo& target, const DriverOptions& options);

/// Reads one kept input in this process, without a limit. Prints what the reader says.
void replay(const TargetInfo& target, const std::string& path);

}  // namespace attest::fuzz
