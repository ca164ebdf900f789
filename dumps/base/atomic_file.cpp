// AtomicFile: exclusive creation of the temporary file, syncing, and renaming with or without overwriting.
#include "dumps/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"
#include "dumps/base/output_place.h"
#include "dumps/base/printable.h"
#include "dumps/base/random_digits.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";

/// The target's name with a mark and 64 random bits, in `folder` or else in the target's folder. A long name is cut,
/// between two characters of UTF-8.
std::string temporary_name(const std::string& target, const std::string& folder) {
  const fs::path place = folder.empty() ? folder_of(target) : fs::path(folder);
  const std::string name = fs::path(target).filename().string();
  const std::string_view stem = cut_text(name, NAME_MAX - kMark.size() - kRandomDigits);
  return (place / fmt::format("{}{}{}", stem, kMark, random_digits())).string();
}

/// False with errno set. EINVAL counts as success: some file systems cannot sync a folder.
bool sync(int descriptor) { return ::fsync(descriptor) == 0 || errno == EINVAL; }

}  // namespace

AtomicFile::AtomicFile(std::string target, AtomicFileOptions options)
    : target_(std::move(target)), options_(std::move(options)) {
  if (target_.empty()) throw OutputError("expected the name of a file to write, found an empty one");
  require_replaceable(target_);
  std::error_code ignored;
  if (!options_.overwrite && fs::exists(fs::symlink_status(target_, ignored))) refuse_existing();
  std::string name = temporary_name(target_, options_.folder);
  const auto make = [&] {
    file_ = FileDescriptor(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (const int error = errno; !file_) {
      throw_if_limit(target_, error);
      fail(std::strerror(error));
    }
  };
  cleanup_.emplace(make, [name] { ::unlink(name.c_str()); });
  temporary_ = std::move(name);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail(std::strerror(errno));
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno != EINTR) fail(std::strerror(errno));
    if (written <= 0) continue;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::start_sync() const { ::sync_file_range(file_.get(), 0, 0, SYNC_FILE_RANGE_WRITE); }

void AtomicFile::commit() {
  if (options_.sync && !sync(file_.get())) fail(std::strerror(errno));
  if (!file_.close()) fail(std::strerror(errno));
  if (!options_.overwrite) {
    rename_without_overwrite();
  } else if (require_replaceable(target_); std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail(std::strerror(errno));
  }
  temporary_.clear();
  cleanup_.reset();
  if (!options_.sync) return;
  // A folder that can be written but not read (EACCES) cannot be opened and is not synced.
  const FileDescriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder ? !sync(folder.get()) : errno != EACCES)
    throw OutputError(
        fmt::format("{}: is written, but its folder cannot be synced ({})", target_, std::strerror(errno)));
}

/// Unlike rename, link and RENAME_NOREPLACE never replace a file. Some file systems support only one of the two.
void AtomicFile::rename_without_overwrite() {
  if (::link(temporary_.c_str(), target_.c_str()) == 0) {
    ::unlink(temporary_.c_str());
    return;
  }
  const int link_error = errno;
  if (link_error == EEXIST) refuse_existing();
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) == 0) return;
  if (errno == EEXIST) refuse_existing();
  fail(std::strerror(link_error));
}

void AtomicFile::fail(std::string_view reason) const {
  throw OutputError(fmt::format("{}: cannot be written ({})", target_, reason));
}

void AtomicFile::refuse_existing() const {
  throw OutputError(fmt::format("{}: exists already, expected a new file (or --force)", target_));
}

bool AtomicFile::is_temporary_name(std::string_view name) {
  if (name.size() < kMark.size() + kRandomDigits) return false;
  const std::string_view digits = name.substr(name.size() - kRandomDigits);
  name.remove_suffix(kRandomDigits);
  return name.ends_with(kMark) && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void write_atomically(const std::string& target, std::string_view content, const AtomicFileOptions& options) {
  AtomicFile file(target, options);
  file.write(content);
  file.commit();
}

}  // namespace attest
