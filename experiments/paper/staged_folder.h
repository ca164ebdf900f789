// An output folder that is made whole: files are written aside and renamed into place together at the end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attest {

/// Makes the target folder (and its parents) if need be and a hidden folder in it to write to. Without commit() nothing
/// of what was written remains, nor a folder that was made for it.
class StagedFolder {
 public:
  /// Throws OutputError when the target is no folder or cannot be written.
  explicit StagedFolder(std::filesystem::path target);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }

  /// Gives every file its place in the target, over one of the same name. Returns their names, sorted.
  std::vector<std::string> commit();

 private:
  std::filesystem::path target_, staging_;
  bool made_target_ = false;
};

}  // namespace attest
