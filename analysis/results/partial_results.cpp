// The folder of an unfinished study: its description, unit files and notes.
#include "analysis/results/partial_results.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "analysis/results/layer_results_codec.h"
#include "analysis/results/study_difference.h"
#include "analysis/results/unit_check.h"
#include "dumps/base/atomic_file.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json.h"
#include "dumps/base/parallel_for.h"
#include "dumps/base/printable.h"
#include "dumps/base/utc_time.h"
#include "dumps/format/format_names.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kUnitPrefix = "unit-";
constexpr std::string_view kNotePrefix = "note-";
/// The kernel frees the pages of a removed file in the thread that removes it: 0.3 s per GB in one thread.
constexpr int kRemovingThreads = 16;
constexpr int kRemovingTries = 3;
/// Between tries to remove the folder itself: doubled each time.
constexpr std::chrono::milliseconds kShortestPause{1}, kLongestPause{64};

/// Not synced to disk: a file damaged by a power failure fails its checksum and is computed again. With small layers,
/// syncing would take longer than computing.
AtomicFileOptions of_unit_file() { return {.sync = false}; }

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
  return name == kStudyFile || name.starts_with(kUnitPrefix) || name.starts_with(kNotePrefix) ||
         AtomicFile::is_temporary_name(name) || FolderMember::is_file_name(name);
}

/// What `read` makes of a file. Empty if there is no such file, or if it cannot be read, is not a regular one, is a
/// link or has more bytes.
template <class Read>
auto read_with(const std::string& path, std::size_t maximum, Read&& read) -> decltype(read(InputFile(path))) {
  try {
    if (fs::is_symlink(path)) return std::nullopt;
    const InputFile file(path);
    if (file.size() > maximum) return std::nullopt;
    return read(file);
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const fs::filesystem_error&) {
    return std::nullopt;
  }
}

std::optional<std::string> read_file(const std::string& path, std::size_t maximum) {
  return read_with(path, maximum, [](const InputFile& file) -> std::optional<std::string> {
    std::string content(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(content)));
    return content;
  });
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

/// Empty if the folder is missing.
std::unique_ptr<FolderMember> joined(const std::string& folder) {
  try {
    return std::make_unique<FolderMember>(folder);
  } catch (const OutputError&) {
    std::error_code error;
    if (fs::exists(folder, error)) throw;
    return nullptr;
  }
}

/// False if there is such a file, or if the folder is gone.
bool write_new_file(const std::string& path, const std::string& content) {
  try {
    write_atomically(path, content, {.overwrite = false, .sync = false});
    return true;
  } catch (const OutputError&) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(path, error)) || !fs::exists(fs::path(path).parent_path(), error)) return false;
    throw;
  }
}

std::vector<fs::path> own_files(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (ours(at->path().filename().string())) files.push_back(at->path());
  return files;
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
  // The study file goes first: without it nobody takes the other files over, so this process may die at any point.
  const fs::path study = fs::path(folder) / kStudyFile;
  fs::remove(study, error);
  if (error && exists(folder))
    throw OutputError(fmt::format("cannot remove '{}': {}", study.string(), error.message()));
  // A network file system may list a folder as it was some seconds ago, until files in it are removed.
  for (int tries = 0; tries < kRemovingTries && !exists(folder); ++tries) {
    const std::vector<fs::path> entries = own_files(folder);
    const auto remove = [&](int, std::size_t i) {
      std::error_code ignored;
      fs::remove(entries[i], ignored);
    };
    try {
      parallel_for(kRemovingThreads, entries.size(), remove);
    } catch (const std::system_error&) {  // no further thread can be started
      parallel_for(1, entries.size(), remove);
    }
    fs::remove(folder, error);
    if (!error) return;
    if (error != std::errc::directory_not_empty)
      throw OutputError(fmt::format("cannot remove '{}': {}", folder, error.message()));
  }
}

PartialResults::PartialResults(const std::string& folder, Start start, const std::string& study_json,
                               const Study* study)
    : study_(study), folder_(folder), study_hash_(study_identity(study_json)) {
  refuse_link(folder_);
  refuse_other_than_files(folder_);
  std::error_code error;
  try {
    do {  // repeated if another process finished its study here and removed the folder in the meantime
      member_.reset();
      fs::create_directory(folder_, error);
      if (error) throw OutputError(fmt::format("cannot make the folder '{}': {}", folder_, error.message()));
      member_ = joined(folder_);
    } while (!member_ || !begin_or_join(start, study_json));
  } catch (...) {
    member_.reset();
    ::rmdir(folder_.c_str());  // if it is empty
    throw;
  }
}

PartialResults::~PartialResults() {
  member_.reset();
  // Another process may be about to leave. A network file system keeps a removed file that is open under another name,
  // for some time also after it is closed, and so the folder of a finished study.
  for (auto pause = kShortestPause; ::rmdir(folder_.c_str()) != 0 && errno == ENOTEMPTY; pause *= 2) {
    if (pause > kLongestPause || exists(folder_)) return;
    std::this_thread::sleep_for(pause);
  }
}

bool PartialResults::begin_or_join(Start start, const std::string& study_json) {
  const std::string path = path_of(kStudyFile);
  const Json now = parse_json(study_json);
  bool is_first = false;
  if (!exists(folder_)) {
    remove_leftovers(folder_);
    const Json content = {{"format", kPartialStudyFormat},
                          {"format_version", kPartialStudyVersion},
                          {"begun", utc_time(std::chrono::system_clock::now())},
                          {"by", self()},
                          {"study", now}};
    is_first = write_new_file(path, content.dump(1) + "\n");
  }
  if (!is_first && start == Start::fresh)
    throw OutputError(
        fmt::format("'{}' holds an unfinished study; continue it with --resume, or start over with --force", folder_));
  const std::optional<std::string> text = read_file(path, kMaxDescriptionBytes);
  if (!text && !exists(folder_)) return false;
  const std::optional<Json> begun = text ? parsed_json(*text) : std::nullopt;
  if (!begun || !begun->contains("study") || !(*begun)["begun"].is_text())
    throw OtherStudyError<InputError>(fmt::format("'{}' is damaged; {}", path, kStartOver),
                                      fmt::format("'{}' is damaged", path));
  study_text_ = *text;
  start_time_ = begun->at("begun").text();
  const std::string by = (*begun)["by"].text_or("another process");
  require_same_study({.folder = folder_, .begun_by = by, .this_process = self()}, begun->at("study"), now);
  return true;
}

bool PartialResults::in_place() {
  if (!FolderMember::may_exist(path_of(kStudyFile))) return false;
  if (member_->is_listed()) return true;
  // Somebody has removed the file of this process; or the folder was removed, and is used for another study.
  if (read_file(path_of(kStudyFile), kMaxDescriptionBytes) != study_text_) return false;
  member_->list_again();
  return true;
}

std::string PartialResults::lock_of(const UnitKey& unit) {
  return fmt::format("{}-{}-{}", unit.dump, unit.sample, unit.layer);
}

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

bool PartialResults::has_file(const UnitKey& unit) const {
  std::error_code error;
  return fs::exists(fs::symlink_status(path_of(unit_file(unit)), error));
}

UnitState PartialResults::state(const UnitKey& unit) const {
  const std::optional<LayerResults> results = load(unit);
  if (!results) return UnitState::missing;
  return results->done ? UnitState::computed : UnitState::left_out;
}

std::optional<LayerResults> PartialResults::load(const UnitKey& unit) const {
  const std::size_t maximum =
      study_ != nullptr ? max_unit_bytes(unit, *study_) : std::numeric_limits<std::size_t>::max();
  return read_with(path_of(unit_file(unit)), maximum, [&](const InputFile& file) {
    std::uint64_t at = 0;
    const auto take = [&](std::span<std::byte> bytes) {
      file.read(at, bytes);
      at += bytes.size();
    };
    return checked(unit, decode_layer_results(take, file.size(), study_hash_));
  });
}

void PartialResults::store(const UnitKey& unit, const LayerResults& results) const {
  AtomicFile file(path_of(unit_file(unit)), of_unit_file());
  attest::encode(results, study_hash_, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

void PartialResults::store_bytes(const UnitKey& unit, std::string_view bytes) const {
  write_atomically(path_of(unit_file(unit)), bytes, of_unit_file());
}

std::string PartialResults::encode(const LayerResults& results) const { return attest::encode(results, study_hash_); }

std::optional<LayerResults> PartialResults::decode(const UnitKey& unit, std::string_view bytes) const {
  return checked(unit, decode_layer_results(bytes, study_hash_));
}

std::optional<LayerResults> PartialResults::checked(const UnitKey& unit, std::optional<LayerResults> results) const {
  const bool belongs = results && results->dump == static_cast<int>(unit.dump) && results->layer == unit.layer &&
                       (study_ == nullptr || belongs_to(*results, unit, *study_));
  return belongs ? std::move(results) : std::nullopt;
}

std::optional<std::string> PartialResults::load_note(const std::string& name) const {
  return read_file(path_of(std::string(kNotePrefix) + name), kMaxDescriptionBytes);
}

bool PartialResults::store_note(const std::string& name, const std::string& text) const {
  return write_new_file(path_of(std::string(kNotePrefix) + name), text);
}

std::string PartialResults::path_of(std::string_view name) const { return fmt::format("{}/{}", folder_, name); }

}  // namespace attest
