#include "experiments/paper/staged_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "dumps/base/error.h"

namespace attest {

namespace fs = std::filesystem;

StagedFolder::StagedFolder(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  if (fs::exists(target_, error) && !fs::is_directory(target_, error))
    throw OutputError(fmt::format("{} is not a folder", target_.string()));
  made_target_ = fs::create_directories(target_, error);
  if (error) throw OutputError(fmt::format("cannot make the folder {}: {}", target_.string(), error.message()));
  std::string name = (target_ / ".attest-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw OutputError(fmt::format("cannot write to the folder {}: {}", target_.string(),
                                  std::error_code(errno, std::generic_category()).message()));
  staging_ = name;
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  if (made_target_) fs::remove(target_, ignored);  // fails, as it should, when commit() has put files there
}

std::vector<std::string> StagedFolder::commit() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(staging_))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  for (const std::string& name : names) {
    std::error_code error;
    fs::rename(staging_ / name, target_ / name, error);
    if (error) throw OutputError(fmt::format("cannot write {}: {}", (target_ / name).string(), error.message()));
  }
  return names;
}

}  // namespace attest
