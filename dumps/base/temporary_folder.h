// A folder for temporary files that is removed with all its content.
#pragma once

#include <filesystem>
#include <optional>

#include "dumps/base/cleanup.h"

namespace attest {

/// Its name, ".attest-" and random characters, cannot be guessed, and only its owner may enter it. The destructor, or a
/// signal that ends the process, removes it.
class TemporaryFolder {
 public:
  /// Throws OutputError if it cannot be made in `parent`.
  explicit TemporaryFolder(const std::filesystem::path& parent);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<Cleanup> cleanup_;
};

/// $TMPDIR or /tmp. Throws OutputError if it is not there.
std::filesystem::path system_temporary_folder();

}  // namespace attest
