// An output folder that appears as a whole: files are written to a hidden folder, then renamed into place together.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dumps/base/cleanup.h"
#include "dumps/base/temporary_folder.h"

namespace attest {

/// Makes the target folder (and its parents) if necessary, and a hidden folder in it for the files. Without commit()
/// the destructor, or a signal that ends the process, removes the files and the folders made for them.
class StagedFolder {
 public:
  /// Throws OutputError when the target is no folder or cannot be written.
  explicit StagedFolder(std::filesystem::path target);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::filesystem::path& staging() const { return temporary_->path(); }

  /// Throws OutputError with `reason`.
  [[noreturn]] void fail(const std::string& reason) const;

  /// Moves every file into the target, once all are on the disk. Each replaces a regular file of the same name; for
  /// anything else of that name OutputError, before any file is moved. Returns their names, sorted.
  std::vector<std::string> commit();

 private:
  void remove_made_folders() const;

  std::filesystem::path target_;
  std::vector<std::filesystem::path> made_;  ///< the target and parents that were missing, the innermost first
  std::optional<Cleanup> target_cleanup_;    ///< before the scratch folder's, which must be removed first
  std::optional<TemporaryFolder> temporary_;
};

}  // namespace attest
