// What a reader of untrusted input gives to the fuzz driver: a maker of inputs, and the contract that each input is
// held to.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/synthetic/counter_random.h"

namespace attest::fuzz {

enum class Outcome : bool { refused, accepted };

class FuzzTarget {
 public:
  virtual ~FuzzTarget() = default;

  /// The bytes of one input, a function of `random` alone.
  virtual std::string make(RandomStream& random) = 0;

  /// Of bytes that were changed without knowledge of the format: checksums that would only hide what lies behind them.
  virtual void repair(std::string&) const {}

  /// Reads an input. Whatever it throws is a failure: a refusal is a value.
  virtual Outcome read(const std::string& input) = 0;
};

struct TargetInfo {
  const char* name;
  std::string_view extension;  ///< of a saved input
  std::uint64_t short_runs;    ///< inputs of a short run, about a second
  std::unique_ptr<FuzzTarget> (*make)();

  bool is_hdf5() const { return extension == ".h5"; }
};

/// The readers, as --reader names them. In several files; fuzz_targets.cpp has the list.
extern const TargetInfo kDumpTarget, kEstimatesTarget, kResultsTarget, kUnitTarget, kStudyTarget, kConfigTarget,
    kChannelsTarget, kSelectorTarget, kGridTarget, kSettingsTarget, kRecommendationTarget, kKernelReportTarget,
    kTasksTarget, kAnswersTarget, kChunkTarget, kProcessTarget, kNoteTarget, kFiguresTarget, kScalesTarget,
    kHeadWeightsTarget, kRopeTarget, kPackedTarget, kModelBenchTarget;
/// Fail in a known way, to test the driver: not part of a run of all readers.
extern const TargetInfo kThrowsTarget, kCrashesTarget, kHangsTarget, kSwellsTarget;

/// Thrown when a reader breaks its contract.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool holds, std::string_view what) {
  if (!holds) throw Broken(std::string(what));
}

/// Runs a reader. A refusal is an InputError or a UsageError of one printable line of at most `maximum` bytes; it has
/// `named` (a path) in it.
inline constexpr std::size_t kMaxSentence = 4000;
template <class Read>
Outcome outcome_of(std::string_view named, Read&& read, std::size_t maximum = kMaxSentence) {
  std::string sentence;
  try {
    read();
    return Outcome::accepted;
  } catch (const InputError& error) {
    sentence = error.what();
  } catch (const UsageError& error) {
    sentence = error.what();
  }
  require(!sentence.empty() && sentence.size() <= maximum,
          fmt::format("a sentence of {} bytes: {}", sentence.size(), sentence.substr(0, 200)));
  require(printable(sentence) == sentence, "not printable: " + printable(sentence));
  require(sentence.find(named) != std::string::npos, "does not name the file: " + sentence);
  return Outcome::refused;
}

/// One of a few values.
template <class List>
decltype(auto) any_of(RandomStream& random, List&& list) {
  return list[random.below(std::size(list))];
}

}  // namespace attest::fuzz
