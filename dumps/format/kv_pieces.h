// Keys and values in pieces that are read one after the other, when they do not lie in host memory as a whole.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dumps/base/input_file.h"
#include "dumps/dump_info.h"
#include "dumps/format/dump_reader.h"
#include "dumps/layer_store.h"

namespace attest {

/// Bytes [begin, end) of a tensor.
struct KvPiece {
  KvTensor tensor = KvTensor::k;
  std::size_t begin = 0, end = 0;
  bool operator==(const KvPiece&) const = default;
};

/// Divides the tensors that are contiguous in the file at borders of its blocks; others have no pieces. Pieces of the
/// first heads come first, so that heads become complete one after the other.
std::vector<KvPiece> kv_pieces(const TensorLocation& k, const TensorLocation& v, int num_kv_heads);

LayerBlocks layer_blocks(const TensorLocation& k, const TensorLocation& v);

/// Reads a piece into `out`, block by block, and observes the blocks as DumpReader::read_layer does. Returns whether
/// the elements that begin in the piece are finite; true if they are not checked.
bool read_piece(const InputFile& file, std::int64_t tensor_offset, const KvPiece& piece, ElementType type,
                const BlockObserver& observe, std::span<std::byte> out, ValueCheck check = ValueCheck::yes);

}  // namespace attest
