// Untrusted files that HDF5 has opened. Callers hold a Lock or run in a guarded child.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dumps/base/input_file.h"
#include "dumps/hdf5/handle.h"

namespace attest::hdf5 {

/// An open file, and its name for messages.
struct OpenFile {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t stored_bytes = 0;  ///< of them on disk
  Handle file;
  Handle link_access;  ///< property list that refuses to follow a link into another file
};

/// Throws InputError when `path` is no regular, readable file, HDF5 cannot open it, or its name leads to another file
/// than `file` by now.
std::shared_ptr<const OpenFile> open_file(const InputFile& file);
std::shared_ptr<const OpenFile> open_file(const std::string& path);

}  // namespace attest::hdf5
