// Divides keys and values into pieces, and reads one.
#include "dumps/format/kv_pieces.h"

#include <algorithm>
#include <vector>

#include "dumps/format/value_check.h"

namespace attest {

namespace {

/// Adds the piece `whole`, cut where the file has a multiple of `block` bytes. Byte 0 of its tensor is at `offset`.
void add_cut(const KvPiece& whole, std::int64_t offset, std::size_t block, std::vector<KvPiece>& pieces) {
  for (std::size_t begin = whole.begin; begin < whole.end;) {
    const std::size_t to_border = block - (static_cast<std::size_t>(offset) + begin) % block;
    const std::size_t end = std::min(whole.end, begin + to_border);
    pieces.push_back({whole.tensor, begin, end});
    begin = end;
  }
}

}  // namespace

std::vector<KvPiece> kv_pieces(const TensorLocation& k, const TensorLocation& v, int num_kv_heads) {
  const auto location_of = [&](KvTensor tensor) -> const TensorLocation& { return tensor == KvTensor::k ? k : v; };
  std::vector<KvPiece> pieces;
  for (const KvTensor tensor : {KvTensor::k, KvTensor::v}) {
    const TensorLocation& location = location_of(tensor);
    if (location.file_offset >= 0)
      add_cut({tensor, 0, location.bytes}, location.file_offset, LayerStore::kPieceBytes, pieces);
  }
  const auto heads = static_cast<std::size_t>(num_kv_heads);
  std::ranges::stable_sort(
      pieces, {}, [&](const KvPiece& piece) { return piece.begin / (location_of(piece.tensor).bytes / heads); });
  return pieces;
}

LayerBlocks layer_blocks(const TensorLocation& k, const TensorLocation& v) {
  LayerBlocks blocks;
  for (const KvTensor tensor : {KvTensor::k, KvTensor::v}) {
    const TensorLocation& location = tensor == KvTensor::k ? k : v;
    if (location.file_offset < 0 || location.bytes == 0) continue;
    const auto begin = static_cast<std::uint64_t>(location.file_offset), end = begin + location.bytes;
    for (std::uint64_t number = begin / kFileBlock; number * kFileBlock < end; ++number) {
      const std::uint64_t first = number * kFileBlock;
      if (first >= begin && first + kFileBlock <= end)
        blocks.whole.push_back({tensor, static_cast<std::size_t>(first - begin), number});
      else
        blocks.cut.push_back(number);
    }
  }
  return blocks;
}

bool read_piece(const InputFile& file, std::int64_t tensor_offset, const KvPiece& piece, ElementType type,
                const BlockObserver& observe, std::span<std::byte> out, ValueCheck check) {
  const std::size_t element = size_of(type);
  const auto in_file = [&](std::size_t at) { return static_cast<std::uint64_t>(tensor_offset) + at; };
  std::size_t checked = std::min(piece.end, (piece.begin + element - 1) / element * element);
  bool finite = true;
  for (std::size_t begin = piece.begin; begin < piece.end;) {
    const std::size_t end = std::min(piece.end, begin + kFileBlock - in_file(begin) % kFileBlock);
    const std::span<std::byte> block = out.subspan(begin - piece.begin, end - begin);
    file.read(in_file(begin), block);
    if (const std::size_t whole = end / element * element; check == ValueCheck::yes && whole > checked) {
      finite = all_finite(type, out.subspan(checked - piece.begin, whole - checked)) && finite;
      checked = whole;
    }
    if (observe && block.size() == kFileBlock) observe(in_file(begin) / kFileBlock, block);
    begin = end;
  }
  if (check == ValueCheck::yes && checked < piece.end) {  // the last element ends in the next piece
    std::vector<std::byte> cut(element);
    file.read(in_file(checked), cut);
    finite = all_finite(type, cut) && finite;
  }
  return finite;
}

}  // namespace attest
