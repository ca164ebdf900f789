// TemporaryFolder by mkdir, which neither follows links nor takes a folder that is there.
#include "dumps/base/temporary_folder.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "dumps/base/error.h"
#include "dumps/base/random_digits.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

/// Other threads may still write into it: what they add while it is removed is removed with the next attempt.
void remove_with_content(const fs::path& folder) {
  constexpr int kAttempts = 100;
  std::error_code error;
  for (int i = 0; i < kAttempts && (i == 0 || error == std::errc::directory_not_empty); ++i)
    fs::remove_all(folder, error);
}

}  // namespace

TemporaryFolder::TemporaryFolder(const fs::path& parent) {
  const fs::path path = parent / (".attest-" + random_digits());
  const auto make = [&] {
    constexpr mode_t kOwnerOnly = 0700;
    if (::mkdir(path.c_str(), kOwnerOnly) != 0)
      throw OutputError(fmt::format("cannot write to the folder {}: {}", parent.string(), std::strerror(errno)));
  };
  cleanup_.emplace(make, [path] { remove_with_content(path); });
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() { remove_with_content(path_); }

fs::path system_temporary_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (error) {
    const char* named = std::getenv("TMPDIR");
    throw OutputError(fmt::format("there is no folder for temporary files: {} ({})",
                                  named != nullptr ? fmt::format("TMPDIR is '{}'", named) : "/tmp", error.message()));
  }
  return folder;
}

}  // namespace attest
