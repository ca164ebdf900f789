// Metadata of a dump: reads and checks it against the format (../README.md), and encodes it as bytes that a guarded
// child sends to its parent.
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

/// Throws InputError for the first broken rule of the format. Call it in a guarded child.
DumpMetadata read_dump_metadata(const std::shared_ptr<const hdf5::OpenFile>& file);

std::string encode(DumpMetadata metadata);
/// Throws std::exception on bytes that encode() did not make from metadata that keep the rules of the format.
DumpMetadata decode(const std::string& bytes);

}  // namespace attest
