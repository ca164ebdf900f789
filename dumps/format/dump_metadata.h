// Everything a dump says but its values: checked against the format (README.md), and as bytes that pass from a guarded
// child to its parent.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dumps/dump_info.h"
#include "dumps/hdf5/node.h"

namespace attest {

struct DumpMetadata {
  DumpInfo info;
  std::vector<std::map<int, LayerInfo>> layers;  ///< [sample], by layer number
};

/// Throws InputError at the first rule of the format that is broken. To be called in a guarded child.
DumpMetadata read_dump_metadata(const std::shared_ptr<const hdf5::OpenFile>& file);

std::string encode(const DumpMetadata& metadata);
/// Throws std::exception on bytes that encode() did not make.
DumpMetadata decode(const std::string& bytes);

}  // namespace attest
