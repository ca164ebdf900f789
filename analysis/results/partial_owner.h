// Where a file system has no locks: the one process that works in the folder of an unfinished study.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dumps/base/cleanup.h"

namespace attest {

/// Owns the folder while it lives. Its file owner-N names the machine and the process. The owner is the one with the
/// largest N; owner-(N+1) replaces one that died on this machine, and only one process can make it.
class PartialOwner {
 public:
  /// Throws OutputError if another process that is alive, or on another machine, has the folder, or if the file cannot
  /// be written.
  explicit PartialOwner(const std::string& folder);
  ~PartialOwner();
  PartialOwner(const PartialOwner&) = delete;
  PartialOwner& operator=(const PartialOwner&) = delete;

  static bool is_file_name(std::string_view name);
  static bool is_this_process(const std::string& folder);
  /// For the owner: removes the files of all owners, its own last.
  static void remove_files(const std::string& folder);

 private:
  std::string path_, content_;
  std::optional<Cleanup> cleanup_;
};

}  // namespace attest
