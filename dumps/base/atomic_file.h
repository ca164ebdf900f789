// A file that appears whole under its name, or not at all.
#pragma once

#include <string>
#include <string_view>

#include "dumps/base/file_descriptor.h"

namespace attest {

struct AtomicFileOptions {
  bool overwrite = true;    ///< false: a target that exists, or appears meanwhile, stays, and is an OutputError
  bool sync = true;         ///< what was written reaches the disk before its name, and both before commit() ends
  std::string folder = {};  ///< where the file is until then, on the target's file system; empty: beside the target
};

/// Holds a new file of the usual permissions (0666 without the umask) until commit() gives it the target's name; the
/// destructor removes one that was not committed. Its name until then cannot be guessed, and it is never opened through
/// a link: a link that somebody planted in a shared folder leads nowhere. A process that is killed leaves it behind.
/// All functions throw OutputError when the file cannot be written.
class AtomicFile {
 public:
  explicit AtomicFile(std::string target, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Open for reading and writing, until commit().
  int descriptor() const { return file_.get(); }
  /// Adds `bytes` at the end of what was written.
  void write(std::string_view bytes);
  void commit();

  /// Throws the OutputError that says `reason`.
  [[noreturn]] void fail(std::string_view reason) const;

  /// Whether `name`, without its folder, is one that a file has before commit().
  static bool is_temporary_name(std::string_view name);

 private:
  [[noreturn]] void refuse_existing() const;
  void give_name_once();

  std::string target_, temporary_;
  AtomicFileOptions options_;
  FileDescriptor file_;
};

/// A file of `content`, whole or not at all.
void write_atomically(const std::string& target, std::string_view content, const AtomicFileOptions& options = {});

}  // namespace attest
