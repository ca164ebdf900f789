// Inputs are made and read. HDF5 makes one file of some inputs; the others are that file with other bytes.
#include "tests/fuzz/driver_work.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "dumps/hdf5/guarded_child.h"
#include "tests/fuzz/byte_mutation.h"
#include "tests/fuzz/checksum_repair.h"
#include "tests/fuzz/loop_limit.h"

namespace attest::fuzz {
namespace {

/// Inputs of a process that calls HDF5, which leaks on damaged files.
constexpr std::uint64_t kBatch = 10'000;

std::uint64_t key_of(std::string_view text) {
  std::uint64_t key = 0;
  for (const char c : text) key = key * 257 + static_cast<unsigned char>(c);
  return key;
}

RandomStream stream_of(const TargetInfo& target, std::uint64_t seed, std::uint64_t number) {
  return RandomStream(random_key({seed, key_of(target.name), number}));
}

std::uint64_t end_of(const DriverOptions& options) { return options.runs > 0 ? options.first + options.runs : kNoMore; }

std::string variant_of(std::string_view base, const TargetInfo& target, std::uint64_t seed, std::uint64_t number) {
  std::string input(base);
  RandomStream random = stream_of(target, seed, number);
  damage_bytes(input, random);
  return input;
}

/// Of some inputs the checksums stay wrong.
ChecksumRepair repair_of(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  RandomStream random(random_key({options.seed, key_of("repair"), shared.input.number}));
  const bool repairs = target.is_hdf5() && random.below(8) != 0;
  return repairs ? ChecksumRepair(shared.input.bytes, shared.input.size) : ChecksumRepair(nullptr, 0);
}

/// The next input that is a variant of the file in `base`, or of the one that is handed over; false if there is none.
bool take_variant(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  const auto first_of = [&](std::uint64_t number) { return number - number % options.variants; };
  if (shared.base.number != first_of(shared.next)) {
    wait_for(shared.made);
    shared.base.set(shared.handed.number, shared.handed.view());
    sem_post(&shared.taken);
    if (shared.base.number == kNoMore) return false;
    shared.next = std::max(shared.next, shared.base.number);
  }
  if (shared.next == shared.base.number)
    shared.input.set(shared.next, shared.base.view());
  else
    shared.input.set(shared.next, variant_of(shared.base.view(), target, options.seed, shared.next));
  return true;
}

bool take_input(const TargetInfo& target, const DriverOptions& options, Shared& shared, FuzzTarget& reader) {
  if (shared.next >= end_of(options)) return false;
  if (target.is_hdf5()) return take_variant(target, options, shared);
  RandomStream random = stream_of(target, options.seed, shared.next);
  shared.input.set(shared.next, reader.make(random));
  return true;
}

long peak_kib(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage.ru_maxrss;
}

/// False, with a sentence, if the reader breaks its contract.
bool read_input(FuzzTarget& reader, const DriverOptions& options, Shared& shared) {
  DriverReport& report = shared.report;
  const std::string input(shared.input.view());
  const Clock::time_point begin = Clock::now();
  Outcome outcome{};
  try {
    outcome = reader.read(input);
  } catch (const std::exception& error) {
    std::snprintf(shared.failure, sizeof shared.failure, "%s",
                  printable(std::string_view(error.what()).substr(0, 500)).c_str());
    return false;
  }
  if (const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      seconds > report.worst_seconds) {
    report.worst_seconds = seconds;
    report.worst_input = shared.input.number;
  }
  const long own = peak_kib(RUSAGE_SELF), children = peak_kib(RUSAGE_CHILDREN);
  report.peak_kib = std::max(report.peak_kib, own);
  report.peak_child_kib = std::max(report.peak_child_kib, children);
  if (static_cast<double>(std::max(own, children)) > options.max_gib * 1024 * 1024) {
    std::snprintf(shared.failure, sizeof shared.failure, "the process took %ld MiB of memory, its children %ld",
                  own / 1024, children / 1024);
    return false;
  }
  ++(outcome == Outcome::accepted ? report.accepted : report.refused);
  return true;
}

}  // namespace

int make_files(const TargetInfo& target, FuzzTarget& maker, const DriverOptions& options, Shared& shared) {
  const std::uint64_t first = shared.making, end = end_of(options);
  for (std::uint64_t number = first; number < end; shared.making = number += options.variants) {
    if (number - first >= kBatch) return kBatchDone;
    RandomStream random = stream_of(target, options.seed, number);
    const std::string file = maker.make(random);
    wait_for(shared.taken);
    shared.handed.set(number, file);
    sem_post(&shared.made);
  }
  wait_for(shared.taken);
  shared.handed.set(kNoMore, "");
  sem_post(&shared.made);
  return kUsedUp;
}

int read_inputs(const TargetInfo& target, FuzzTarget& reader, const DriverOptions& options, Shared& shared,
                Clock::time_point end) {
  const bool here = target.is_hdf5() && !options.guarded;
  make_no_guarded_children(!options.guarded);
  for (std::uint64_t count = 0; Clock::now() < end; ++count) {
    if (here && count == kBatch) return kBatchDone;
    shared.stage = Stage::making;
    if (!take_input(target, options, shared, reader)) break;
    shared.stage = Stage::reading;
    ++shared.begun;
    shared.next = shared.input.number + 1;
    const ChecksumRepair repair = repair_of(target, options, shared);
    std::optional<LoopLimit> limit;
    if (here) limit.emplace(kLooping);
    const bool good = read_input(reader, options, shared);
    limit.reset();
    if (repair.repairs() > 0) ++shared.report.repaired;
    if (!good) return kFailed;
  }
  return kUsedUp;
}

int read_again(const TargetInfo& target, FuzzTarget& reader, const DriverOptions& options, Shared& shared) {
  const ChecksumRepair repair = repair_of(target, options, shared);
  make_no_guarded_children(false);
  ++shared.begun;
  return read_input(reader, options, shared) ? kUsedUp : kFailed;
}

std::string make_input(const TargetInfo& target, const DriverOptions& options, std::uint64_t number) {
  const std::uint64_t first = target.is_hdf5() ? number - number % options.variants : number;
  RandomStream random = stream_of(target, options.seed, first);
  const std::string base = target.make()->make(random);
  return number == first ? base : variant_of(base, target, options.seed, number);
}

}  // namespace attest::fuzz
