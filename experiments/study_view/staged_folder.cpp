// StagedFolder: a hidden folder whose files commit() renames into the target.
#include "experiments/study_view/staged_folder.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "dumps/base/cleanup.h"
#include "dumps/base/error.h"
#include "dumps/base/file_descriptor.h"
#include "dumps/base/output_place.h"

namespace attest {

namespace fs = std::filesystem;

namespace {

/// `path` and its parents as far as they do not exist, the innermost first.
std::vector<fs::path> missing_folders(fs::path path) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  for (; !path.empty() && !fs::exists(path, ignored); path = path.parent_path()) missing.push_back(path);
  return missing;
}

}  // namespace

StagedFolder::StagedFolder(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  if (fs::exists(target_, error) && !fs::is_directory(target_, error))
    throw OutputError(fmt::format("{} is not a folder", target_.string()));
  made_ = missing_folders(target_);
  const auto make = [&] {
    fs::create_directories(target_, error);
    if (!error) return;
    remove_made_folders();
    throw OutputError(fmt::format("cannot make the folder {}: {}", target_.string(), error.message()));
  };
  if (!made_.empty()) target_cleanup_.emplace(make, [this] { remove_made_folders(); });
  try {
    temporary_.emplace(target_);
  } catch (const OutputError&) {
    remove_made_folders();
    throw;
  }
}

StagedFolder::~StagedFolder() {
  temporary_.reset();
  remove_made_folders();
}

void StagedFolder::remove_made_folders() const {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // fails, as it should, where files are
}

void StagedFolder::fail(const std::string& reason) const {
  throw OutputError(fmt::format("cannot write to the folder {}: {}", target_.string(), reason));
}

std::vector<std::string> StagedFolder::commit() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(staging()))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  for (const std::string& name : names) {
    require_replaceable((target_ / name).string());
    // On some file systems a full disk shows only now.
    const FileDescriptor file(::open((staging() / name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fsync(file.get()) != 0)
      fail(fmt::format("{}: {}", name, std::error_code(errno, std::generic_category()).message()));
  }
  const std::unique_lock all_or_none = delay_cleanups();
  for (const std::string& name : names) {
    std::error_code error;
    fs::rename(staging() / name, target_ / name, error);
    if (error) fail(fmt::format("{}: {}", name, error.message()));
  }
  return names;
}

}  // namespace attest
