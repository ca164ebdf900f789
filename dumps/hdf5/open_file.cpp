// Opens files by name, and checks that HDF5 has opened the one that was meant.
#include "dumps/hdf5/open_file.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <array>
#include <span>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"

namespace attest::hdf5 {
namespace {

herr_t refuse_external_link(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; }

/// HDF5 looks for the signature at offsets 0, 512, 1024, 2048, ...: bytes before it are a user block.
bool has_signature(const InputFile& file) {
  constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  std::array<std::uint8_t, 8> found{};
  for (std::uint64_t offset = 0; offset + found.size() <= file.size(); offset = offset == 0 ? 512 : offset * 2) {
    file.read(offset, std::as_writable_bytes(std::span(found)));
    if (found == kSignature) return true;
  }
  return false;
}

/// HDF5 opens by name, under which another file may stand by now.
void require_same_file(const InputFile& file, const Handle& opened) {
  void* descriptor = nullptr;  // of HDF5's default driver, an int
  struct stat was {};
  struct stat is {};
  if (H5Fget_vfd_handle(opened.get(), H5P_DEFAULT, &descriptor) >= 0 && ::fstat(file.descriptor(), &was) == 0 &&
      ::fstat(*static_cast<int*>(descriptor), &is) == 0 && was.st_dev == is.st_dev && was.st_ino == is.st_ino)
    return;
  throw InputError(fmt::format("{}: another file has taken its place since it was opened", file.path()));
}

}  // namespace

std::shared_ptr<const OpenFile> open_file(const std::string& path) { return open_file(InputFile(path)); }

std::shared_ptr<const OpenFile> open_file(const InputFile& file) {
  const InputFile bytes(file.path());  // as it is now: it may have grown
  if (!has_signature(bytes)) {
    throw InputError(fmt::format("{}: is not an HDF5 file, {}", file.path(),
                                 bytes.size() == 0 ? "it is empty" : "it has no HDF5 signature"));
  }
  auto result = std::make_shared<OpenFile>();
  result->name = file.path();
  result->bytes = static_cast<std::int64_t>(bytes.size());
  result->stored_bytes = static_cast<std::int64_t>(bytes.stored_bytes());
  H5PLset_loading_state(0);  // a file must not make HDF5 load a plug-in
  result->link_access = Handle(H5Pcreate(H5P_LINK_ACCESS));
  H5Pset_elink_cb(result->link_access.get(), refuse_external_link, nullptr);
  result->file = Handle(H5Fopen(file.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!result->file) {
    throw InputError(
        fmt::format("{}: is truncated or damaged, HDF5 says: {}", file.path(), printable(take_error_text())));
  }
  require_same_file(file, result->file);
  return result;
}

}  // namespace attest::hdf5
