// The folder of an unfinished study: unit files, notes, and locks on units.
#include "analysis/results/partial_results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "analysis/results/layer_results_codec.h"
#include "analysis/results/study_difference.h"
#include "analysis/results/unit_check.h"
#include "analysis/results/unit_claim.h"
#include "dumps/base/atomic_file.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_text.h"
#include "dumps/base/parallel_for.h"
#include "dumps/base/printable.h"
#include "dumps/base/utc_time.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kStudyFile = "study.json";
constexpr std::string_view kLockFile = "locks";
constexpr std::string_view kUnitPrefix = "unit-";
constexpr std::string_view kNotePrefix = "note-";
constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;  // of the study and of notes
/// The kernel frees the pages of a removed file in the thread that removes it: 0.3 s per GB in one thread.
constexpr int kRemovingThreads = 8;

std::string reason(int error_number) { return std::generic_category().message(error_number); }

[[noreturn]] void fail_not_a_file(const std::string& folder, std::string_view name) {
  throw InputError(fmt::format("'{}/{}' is not a file; start over with --force", folder, name));
}

/// What is written through a link would land elsewhere.
void refuse_link(const std::string& folder) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(folder, error)))
    throw InputError(fmt::format("'{}' is a link, expected a folder", folder));
}

std::string unit_file(const UnitKey& unit) {
  return fmt::format("{}{}-{}-{}.bin", kUnitPrefix, unit.dump, unit.sample, unit.layer);
}

bool ours(const std::string& name) {
  return name == kStudyFile || name == kLockFile || name.starts_with(kUnitPrefix) || name.starts_with(kNotePrefix) ||
         AtomicFile::is_temporary_name(name) || PartialOwner::is_file_name(name);
}

/// Empty if there is no such file, or if it cannot be read, is not a regular one, is a link or has more bytes.
std::optional<std::string> read_file(const std::string& path, std::size_t most) {
  try {
    if (fs::is_symlink(path)) return std::nullopt;
    const InputFile file(path);
    if (file.size() > most) return std::nullopt;
    std::string content(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(content)));
    return content;
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const fs::filesystem_error&) {
    return std::nullopt;
  }
}

/// Its own files are written by rename, never through a link, a pipe or into a folder of that name.
void refuse_other_than_files(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // by another process
    const fs::file_status status = at->symlink_status(gone);
    const std::string name = at->path().filename().string();
    if (ours(name) && fs::exists(status) && !fs::is_regular_file(status)) fail_not_a_file(folder, printable(name));
  }
}

/// Empty if the folder is missing.
FileDescriptor open_lock_file(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kLockFile);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  if (!file && errno != ENOENT) throw OutputError(fmt::format("cannot write into '{}': {}", folder, reason(errno)));
  return file;
}

/// Units and notes without a study file: a process died while it removed them. They may be of other inputs.
void remove_leftovers(const std::string& folder) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename().string();
        name.starts_with(kUnitPrefix) || name.starts_with(kNotePrefix))
      leftovers.push_back(at->path());
  for (const fs::path& file : leftovers)
    if (!fs::remove(file, error) && error)
      throw OutputError(fmt::format("cannot remove '{}': {}", file.string(), error.message()));
}

bool still_in_place(const FileDescriptor& file, const std::string& folder) {
  struct stat opened {
  }, named{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(fmt::format("{}/{}", folder, kLockFile).c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

bool PartialResults::exists(const std::string& folder) {
  std::error_code error;
  return fs::exists(fs::symlink_status(fs::path(folder) / kStudyFile, error));
}

std::string PartialResults::folder_of(const std::string& output) {
  const fs::path path = output;
  const std::string name = path.filename().string();
  constexpr std::string_view kEnding = ".partial";
  if (name.size() + kEnding.size() <= NAME_MAX) return output + std::string(kEnding);
  const std::string digits = "-" + hex_digits(hash_of(std::as_bytes(std::span(name))));
  const std::string begin = name.substr(0, NAME_MAX - kEnding.size() - digits.size());
  return (path.parent_path() / (begin + digits + std::string(kEnding))).string();
}

void PartialResults::discard(const std::string& folder) {
  refuse_link(folder);
  if (const std::string foreign = foreign_entry(folder); !foreign.empty())
    throw OutputError(fmt::format("'{}' is left unchanged: '{}' in it does not belong to an unfinished study", folder,
                                  printable(foreign)));
  remove_own_files(folder);
}

std::string PartialResults::foreign_entry(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (std::string name = at->path().filename().string(); !ours(name)) return name;
  return "";
}

void PartialResults::remove_own_files(const std::string& folder) {
  refuse_link(folder);
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  const fs::file_status lock_status = fs::symlink_status(fs::path(folder) / kLockFile, error);
  FileDescriptor lock_file;
  if (!fs::exists(lock_status) || fs::is_regular_file(lock_status)) lock_file = open_lock_file(folder);
  std::optional<PartialOwner> owner;
  if (lock_file && lock_byte(lock_file.get(), kFolderLock, true) == LockState::not_supported &&
      !PartialOwner::is_this_process(folder))
    owner.emplace(folder);
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename().string(); ours(name) && !PartialOwner::is_file_name(name))
      entries.push_back(at->path());
  // The study file goes first: without it nobody takes the other files over, so this process may die at any point.
  fs::remove(fs::path(folder) / kStudyFile, error);
  const auto remove = [&](int, std::size_t i) {
    std::error_code ignored;
    fs::remove(entries[i], ignored);
  };
  try {
    parallel_for(kRemovingThreads, entries.size(), remove);
  } catch (const std::system_error&) {  // no further thread can be started
    parallel_for(1, entries.size(), remove);
  }
  fs::remove(fs::path(folder) / kLockFile, error);
  PartialOwner::remove_files(folder);
  fs::remove(folder, error);
  if (error && error != std::errc::directory_not_empty)
    throw OutputError(fmt::format("cannot remove '{}': {}", folder, error.message()));
}

PartialResults::PartialResults(const std::string& folder, Start start, const std::string& study_json,
                               const Study* study, Sharing sharing)
    : study_(study), folder_(folder), study_hash_(hash_of(std::as_bytes(std::span(study_json)))) {
  if (start == Start::join) return;
  refuse_link(folder_);
  refuse_other_than_files(folder_);
  do {  // repeated if another process finished its study here and removed the folder in the meantime
    std::error_code error;
    fs::create_directory(folder_, error);
    if (error) throw OutputError(fmt::format("cannot make the folder '{}': {}", folder_, error.message()));
    lock_file_ = open_lock_file(folder_);
    if (lock_file_ && lock_byte(lock_file_.get(), kFolderLock, true) == LockState::not_supported && !owner_ &&
        sharing == Sharing::by_locks)
      owner_.emplace(folder_);
  } while (!lock_file_ || !still_in_place(lock_file_, folder_));
  const UnitClaim folder_claim(lock_file_.get(), kFolderLock);

  const json now = json::parse(study_json);
  const std::string path = fmt::format("{}/{}", folder_, kStudyFile);
  if (!exists(folder_)) {
    remove_leftovers(folder_);
    start_time_ = utc_time(std::chrono::system_clock::now());
    const json content = {
        {"format", "attention-study-partial"}, {"format_version", 1}, {"begun", start_time_}, {"study", now}};
    write_file(std::string(kStudyFile), content.dump(1) + "\n");
    return;
  }
  if (start == Start::fresh)
    throw OutputError(
        fmt::format("'{}' holds an unfinished study; continue it with --resume, or start over with --force", folder_));
  const std::optional<std::string> text = read_file(path, kMostTextBytes);
  const std::optional<json> begun = text ? parse_json(*text) : std::nullopt;
  if (!begun || !begun->is_object() || !begun->contains("study") || !begun->contains("begun") ||
      !begun->at("begun").is_string())
    throw InputError(fmt::format("'{}' is damaged; {}", path, kStartOver));
  start_time_ = begun->at("begun");
  if (begun->at("study") != now)
    throw UsageError(fmt::format("cannot resume '{}': it was started with {}; {}", folder_,
                                 study_difference(begun->at("study"), now), kStartOver));
}

std::optional<UnitClaim> PartialResults::claim(const UnitKey& unit) {
  return UnitClaim::of(lock_file_.get(), offset_of_lock(unit));
}

std::optional<UnitClaim> PartialResults::claim_finish() { return UnitClaim::of(lock_file_.get(), kFinishLock); }

std::set<UnitKey> PartialResults::unit_files(const std::string& folder) {
  std::set<UnitKey> units;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    UnitKey unit;
    std::error_code gone;  // by another process
    if (std::sscanf(name.c_str(), "unit-%zu-%zu-%d.bin", &unit.dump, &unit.sample, &unit.layer) == 3 &&
        name == unit_file(unit) && fs::is_regular_file(at->symlink_status(gone)))
      units.insert(unit);
  }
  return units;
}

UnitState PartialResults::state(const UnitKey& unit) const {
  const std::optional<LayerResults> results = load(unit);
  if (!results) return UnitState::missing;
  return results->done ? UnitState::computed : UnitState::left_out;
}

std::optional<LayerResults> PartialResults::load(const UnitKey& unit) const {
  const std::size_t most = study_ != nullptr ? most_unit_bytes(unit, *study_) : std::numeric_limits<std::size_t>::max();
  const std::optional<std::string> bytes = read_file(fmt::format("{}/{}", folder_, unit_file(unit)), most);
  return bytes ? decode(unit, *bytes) : std::nullopt;
}

LayerResults PartialResults::load_finished(const UnitKey& unit) const {
  if (std::optional<LayerResults> results = load(unit)) return std::move(*results);
  throw OutputError(
      fmt::format("'{}/{}' has become unreadable; --resume computes the layer again", folder_, unit_file(unit)));
}

void PartialResults::store(const UnitKey& unit, const LayerResults& results) {
  write_file(unit_file(unit), encode(results));
}

std::string PartialResults::encode(const LayerResults& results) const { return attest::encode(results, study_hash_); }

std::optional<LayerResults> PartialResults::decode(const UnitKey& unit, std::string_view bytes) const {
  std::optional<LayerResults> results = decode_layer_results(bytes, study_hash_);
  const bool belongs = results && results->dump == static_cast<int>(unit.dump) && results->layer == unit.layer &&
                       (study_ == nullptr || belongs_to(*results, unit, *study_));
  return belongs ? std::move(results) : std::nullopt;
}

std::optional<std::string> PartialResults::load_note(const std::string& name) const {
  return read_file(fmt::format("{}/{}{}", folder_, kNotePrefix, name), kMostTextBytes);
}

void PartialResults::remove_note(const std::string& name) {
  std::error_code error;
  fs::remove(fmt::format("{}/{}{}", folder_, kNotePrefix, name), error);
}

void PartialResults::store_note(const std::string& name, const std::string& text) {
  write_file(std::string(kNotePrefix) + name, text);
}

void PartialResults::write_file(const std::string& name, const std::string& content) const {
  // Not synced to disk: a file damaged by a power failure fails its checksum and is computed again. With small layers,
  // syncing would take longer than computing.
  write_atomically(fmt::format("{}/{}", folder_, name), content, {.sync = false});
}

}  // namespace attest
