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
  std::uint64_t first = 0;      ///< number of the first input
  std::uint64_t runs = 0;       ///< inputs; 0: as many as the time allows
  double seconds = 0;           ///< 0: as long as the inputs take
  double max_seconds = 10;      ///< of one input, of the processor; six times as many on the clock
  double max_gib = 2;           ///< resident memory of the process and of its children
  std::uint64_t variants = 16;  ///< inputs of one file that HDF5 made: all but one have other bytes
  bool guarded = false;         ///< HDF5 files are read in children, as the program does, and not in the worker itself
  std::string failures = "";    ///< folder for the inputs that failed; empty: that for temporary files
};

struct DriverReport {
  std::uint64_t accepted = 0, refused = 0;
  std::uint64_t failed = 0;    ///< the run ends after kMaxFailures
  std::uint64_t repaired = 0;  ///< of all: checksums of HDF5 had to be put right
  std::uint64_t crashes = 0;   ///< of HDF5 in the worker; each is read again in a guarded child
  std::uint64_t loops = 0;     ///< the worker ended after kLoopSeconds; some are read again in a guarded child
  std::uint64_t again = 0;     ///< were read again
  std::uint64_t unmade = 0;    ///< HDF5 crashes on a few of the changes that make an input, before a reader sees it
  double seconds = 0, processor_seconds = 0;  ///< of all processes
  double again_seconds = 0;                   ///< of the processor, in which children read again
  double worst_seconds = 0;
  std::uint64_t worst_input = 0;
  long peak_kib = 0, peak_child_kib = 0;
};
inline constexpr std::uint64_t kMaxFailures = 10;

/// The input of a number, the same in every process, before its checksums are repaired.
std::string make_input(const TargetInfo& target, const DriverOptions& options, std::uint64_t number);

/// Prints a sentence for each failure, with the file in which its input is kept.
DriverReport drive(const TargetInfo& target, const DriverOptions& options);

/// Reads one kept input in this process, without a limit. Prints what the reader says.
void replay(const TargetInfo& target, const std::string& path);

}  // namespace attest::fuzz
