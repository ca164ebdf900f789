// A file that appears complete under its name, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dumps/base/cleanup.h"
#include "dumps/base/file_descriptor.h"

namespace attest {

struct AtomicFileOptions {
  /// True: replaces a regular file, and nothing else. False: OutputError if the target exists, even if it appears only
  /// before commit().
  bool overwrite = true;
  bool sync = true;         ///< the data reach the disk before the name does, and both before commit() returns
  std::string folder = {};  ///< of the temporary file, on the target's file system; empty: the target's folder
};

/// Writes to a temporary file with the usual permissions (0666 minus the umask). commit() gives it the target's name;
/// without commit() the destructor removes it. Its name cannot be guessed and opening it never follows a link, so that
/// a link planted in a shared folder has no effect. A signal that can be handled removes it (Cleanup); `kill -9` leaves
/// it behind. All functions throw OutputError when the file cannot be written.
class AtomicFile {
 public:
  explicit AtomicFile(std::string target, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// The temporary file, open for reading and writing until commit().
  int descriptor() const { return file_.get(); }
  /// Appends `bytes`.
  void write(std::string_view bytes);
  /// Writes `bytes` at an offset, and leaves the place where write() appends as it is. Thread-safe.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  /// Starts to write to the disk what was written so far, so that commit() has less to wait for.
  void start_sync() const;
  /// The target is there, too, when its folder alone cannot be synced: the message says so.
  void commit();

  /// Throws OutputError with `reason`.
  [[noreturn]] void fail(std::string_view reason) const;

  /// Whether `name`, without its folder, is the name of a temporary file of this class.
  static bool is_temporary_name(std::string_view name);

 private:
  [[noreturn]] void refuse_existing() const;
  void rename_without_overwrite();

  std::string target_, temporary_;
  AtomicFileOptions options_;
  FileDescriptor file_;
  std::optional<Cleanup> cleanup_;  ///< while there is a temporary file
};

/// Writes a complete file with `content`, or none.
void write_atomically(const std::string& target, std::string_view content, const AtomicFileOptions& options = {});

}  // namespace attest
