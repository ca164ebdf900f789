// The file of a chunk: a line of magic, the description of the study as JSON, then for each unit its place in the plan
// and the bytes of its file, which have a checksum. Sizes are 64-bit numbers, little endian.
#include "analysis/run/chunk.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <span>
#include <utility>

#include "analysis/results/folder_member.h"
#include "analysis/results/study_difference.h"
#include "analysis/results/unit_check.h"
#include "analysis/run/study_output.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/calibration.h"
#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json.h"
#include "dumps/base/output_place.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

constexpr std::string_view kMagic = "attest chunk 1\n";

std::string number_text(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> 8 * i & 0xFF);
  return bytes;
}

/// Places in the plan, each once.
std::vector<std::size_t> chosen_units(const PreparedStudy& run) {
  const std::size_t count = run.plan.units.size();
  std::vector<std::size_t> chosen;
  std::vector<bool> taken(count);
  for (const auto& [first, last] : run.options.chunk->units) {
    if (static_cast<std::size_t>(first) >= count || (last != kOpenEnd && static_cast<std::size_t>(last) >= count))
      throw UsageError(fmt::format("--units: the study has units 0 to {}, found {}", count - 1,
                                   static_cast<std::size_t>(first) >= count ? first : last));
    for (std::size_t i = static_cast<std::size_t>(first); i < count && i <= static_cast<std::size_t>(last); ++i) {
      if (!taken[i]) chosen.push_back(i);
      taken[i] = true;
    }
  }
  return chosen;
}

/// Reads a chunk from its beginning to its end. Nothing in it is trusted.
class ChunkReader {
 public:
  explicit ChunkReader(const std::string& path) : file_(path) {
    if (text(kMagic.size(), kMagic.size()) != kMagic)
      fail("expected the units of a study, as attest run --chunk writes them");
  }
  bool at_end() const { return at_ == file_.size(); }
  std::uint64_t number(std::uint64_t maximum, const char* what) {
    std::byte bytes[8];
    if (file_.size() - at_ < sizeof bytes) fail("ends early");
    file_.read(at_, bytes);
    at_ += sizeof bytes;
    const auto value = little_endian<std::uint64_t>(bytes);
    if (value > maximum) fail(fmt::format("{} is {}, expected at most {}", what, value, maximum));
    return value;
  }
  std::string text(std::uint64_t size, std::uint64_t maximum) {
    if (size > maximum || size > file_.size() - at_) fail("ends early");
    std::string bytes(size, '\0');
    file_.read(at_, std::as_writable_bytes(std::span(bytes)));
    at_ += size;
    return bytes;
  }
  [[noreturn]] void fail(const std::string& why) const { throw InputError(fmt::format("{}: {}", file_.path(), why)); }

 private:
  InputFile file_;
  std::uint64_t at_ = 0;
};

void require_unchanged(const std::vector<InputStatus>& inputs) {
  for (const InputStatus& input : inputs)
    if (input_status(input.path) != input)
      throw InputError(fmt::format("'{}' changed while it was studied", input.path));
}

/// The chosen units in the order in which they are finished.
RunReport write_chunk(PreparedStudy& run, const std::vector<std::size_t>& chosen, PartialResults& partial,
                      const std::atomic<bool>& stop, const StudyObserver& observer) {
  StudyPlan plan = run.plan;
  plan.units.clear();
  for (const std::size_t i : chosen) plan.units.push_back(run.plan.units[i]);
  calibrate(run.study, run.plan, run.readers[0], &stop);
  RunReport report{.outcome = RunReport::Outcome::wrote_chunk, .progress = {}, .device = run.device_text()};
  StudyObserver counting = observer;
  counting.progress = [&](const StudyProgress& progress) {
    report.progress = progress;
    observer.progress(progress);
  };
  const std::string description = Json{{"by", partial.self()}, {"study", parse_json(run.configuration)}}.dump();
  // A chunk that a power failure has damaged is refused, and computed again, as the file of a unit is.
  AtomicFile file(run.options.chunk->file, {.sync = false});
  file.write(kMagic);
  file.write(number_text(description.size()));
  file.write(description);
  std::mutex mutex;
  UnitQueue queue(partial, plan, run.study.skip_bad_layers, observer.notice, UnitQueue::Files::none);
  run.compute(
      queue, plan,
      [&](const UnitKey& unit, const LayerResults& found, UnitOrigin) {
        const std::string bytes = partial.encode(found);
        const auto place = std::ranges::lower_bound(run.plan.units, unit) - run.plan.units.begin();
        const std::lock_guard lock(mutex);
        file.write(number_text(static_cast<std::uint64_t>(place)));
        file.write(number_text(bytes.size()));
        file.write(bytes);
      },
      counting);
  require_unchanged(run.inputs);
  file.commit();
  return report;
}

}  // namespace

RunReport compute_chunk(PreparedStudy& run, const std::atomic<bool>& stop, const StudyObserver& observer) {
  const std::string& target = run.options.chunk->file;
  require_replaceable(target);  // before anything is computed
  refuse_inputs(run.study, run.options, target);
  std::error_code error;
  if (!run.options.force && std::filesystem::exists(target, error))
    throw OutputError(fmt::format("'{}' exists; --force replaces it", target));
  const std::vector<std::size_t> chosen = chosen_units(run);
  for (const std::string& notice : run.notices) observer.notice(notice);
  run.hashes->rest();
  const std::string folder = PartialResults::folder_of(target);
  if (run.options.force) {
    FolderMember::require_none(folder, stop, observer.notice);
    PartialResults::discard(folder);
  }
  PartialResults partial(folder, PartialResults::Start::resume, run.configuration, &run.study);
  try {
    RunReport report = write_chunk(run, chosen, partial, stop, observer);
    PartialResults::remove_own_files(folder);
    return report;
  } catch (...) {
    // A chunk has no finished units in the folder. What it leaves would only refuse the next chunk of this name.
    if (PartialResults::unit_files(folder).empty() && !partial.has_seen_another())
      PartialResults::remove_own_files(folder);
    throw;
  }
}

void take_chunk(const std::string& path, const PreparedStudy& run, const PartialResults& partial,
                const std::function<void(const UnitKey&, const LayerResults&)>& taken, const std::atomic<bool>& stop) {
  ChunkReader chunk(path);
  const std::uint64_t size = chunk.number(kMaxDescriptionBytes, "the size of the study's description");
  const std::optional<Json> described = parsed_json(chunk.text(size, kMaxDescriptionBytes));
  if (!described || !described->contains("study") || !(*described)["by"].is_text())
    chunk.fail("the study's description is damaged");
  require_same_study({.folder = path, .begun_by = described->at("by").text(), .this_process = partial.self()},
                     described->at("study"), parse_json(run.configuration));
  while (!chunk.at_end()) {
    if (stop) throw Interrupted("interrupted");
    const UnitKey& unit = run.plan.units[chunk.number(run.plan.units.size() - 1, "a unit")];
    const std::uint64_t maximum = max_unit_bytes(unit, run.study);
    const std::uint64_t bytes = chunk.number(maximum, "the size of a unit");
    const std::string text = chunk.text(bytes, maximum);
    const std::optional<LayerResults> results = partial.decode(unit, text);
    if (!results)
      chunk.fail(fmt::format("the results of sample {}, layer {} are damaged", unit.sample + 1, unit.layer));
    run.take_hashes(unit, *results, UnitOrigin::beside);
    if (partial.state(unit) == UnitState::missing) partial.store_bytes(unit, text);
    taken(unit, *results);
  }
}

std::vector<std::size_t> missing_units(const PreparedStudy& run, const PartialResults& partial) {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < run.plan.units.size(); ++i)
    if (!partial.has_file(run.plan.units[i])) missing.push_back(i);
  return missing;
}

}  // namespace attest
