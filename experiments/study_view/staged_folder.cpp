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

StagedFolder::StagedFolder(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  if (fs::exists(target_, error) && !fs::is_directory(target_, error))
    throw OutputError(fmt::format("{} is not a folder", target_.string()));
  made_target_ = !fs::exists(target_, error);
  const auto make = [&] {
    fs::create_directories(target_, error);
    if (error) throw OutputError(fmt::format("cannot make the folder {}: {}", target_.string(), error.message()));
  };
  if (made_target_) target_cleanup_.emplace(make, [this] { remove_empty_target(); });
  try {
    temporary_.emplace(target_);
  } catch (const OutputError&) {
    remove_empty_target();
    throw;
  }
}

StagedFolder::~StagedFolder() {
  temporary_.reset();
  remove_empty_target();
}

void StagedFolder::remove_empty_target() const {
  std::error_code ignored;
  if (made_target_) fs::remove(target_, ignored);  // fails, as it should, if commit() has put files there
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
