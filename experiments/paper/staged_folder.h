// An output folder that appears as a whole: files are written to a hidden folder, then renamed into place together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attest {

/// Makes the target folder (and its parents) if necessary, and a hidden folder in it for the files. Without commit()
/// the destructor removes the files and a folder made for them.
class StagedFolder {
 public:
  /// Throws OutputError when the target is no folder or cannot be written.
  explicit StagedFolder(std::filesystem::path target);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }

  /// Throws OutputError with `reason`.
  [[noreturn]] void fail(const std::string& reason) const;

  /// Moves every file into the target, once all are on the disk. Each replaces a regular file of the same name; for
  /// anything else of that name OutputError, before any file is moved. Returns their names, sorted.
  std::vector<std::string> commit();

 private:
  std::filesystem::path target_, staging_;
  bool made_target_ = false;
};

}  // namespace attest
