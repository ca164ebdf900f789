// What may be replaced and the folder by stat, free space by statvfs.
#include "dumps/base/output_place.h"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include "dumps/base/byte_size.h"
#include "dumps/base/error.h"
#include "dumps/base/file_kind.h"
#include "dumps/base/printable.h"

namespace attest {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

void require_replaceable(const std::string& target) {
  std::error_code error;
  const fs::file_status status = fs::status(target, error);
  if (error == std::errc::filename_too_long || error == std::errc::too_many_symbolic_link_levels)
    throw OutputError(fmt::format("cannot write '{}': {}", excerpt(target), error.message()));
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw OutputError(
        fmt::format("{}: expected a file that --force can replace, found {}", target, kind_of_file(target)));
}

void require_folder_of(const std::string& target) {
  const fs::path folder = folder_of(target);
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const bool unknown = error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory;
  throw OutputError(
      printable(fmt::format("cannot write '{}': {}", target,
                            unknown ? error.message() : fmt::format("there is no folder '{}'", folder.string()))));
}

void require_free_space(const std::string& target, double bytes) {
  const fs::path folder = folder_of(target);
  struct statvfs status {};
  // Some network file systems report no blocks at all.
  if (::statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return;
  const double free = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
  if (bytes > free)
    throw OutputError(fmt::format("{}: needs {}, the file system of {} has {} free", target, byte_size_text(bytes),
                                  folder.string(), byte_size_text(free)));
}

}  // namespace attest
