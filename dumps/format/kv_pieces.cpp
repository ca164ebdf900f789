// Divides keys and values into pieces, and reads one.
#include "dumps/format/kv_pieces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dumps/format/value_check.h"

namespace attest {

namespace {

/// The last pieces, of which a quarter of the bytes is, are cut into blocks: threads then finish at about the same
/// time. Where 15 of them read 32 pieces of one size, they waited for each other in 29 % of the time.
std::vector<KvPiece> with_small_end(std::vector<KvPiece> pieces, const auto& offset_of) {
  const std::size_t whole = pieces.size() - pieces.size() / 4;
  const std::vector<KvPiece> last(pieces.begin() + static_cast<std::ptrdiff_t>(whole), pieces.end());
  pieces.resize(whole);
  for (const KvPiece& piece : last)
    for (std::size_t begin = piece.begin; begin < piece.end;) {
      const std::size_t to_border = kFileBlock - (offset_of(piece) + begin) % kFileBlock;
      const std::size_t end = std::min(piece.end, begin + to_border);
      pieces.push_back({piece.tensor, begin, end});
      begin = end;
    }
  return pieces;
}

}  // namespace

std::vector<KvPiece> kv_pieces(const TensorLocation& k, const TensorLocation& v, int num_kv_heads) {
  const auto location_of = [&](const KvPiece& piece) -> const TensorLocation& {
    return piece.tensor == KvTensor::k ? k : v;
  };
  const auto offset_of = [&](const KvPiece& piece) { return static_cast<std::size_t>(location_of(piece).file_offset); };
  std::vector<KvPiece> pieces;
  for (const auto& [tensor, location] : {std::pair(KvTensor::k, k), std::pair(KvTensor::v, v)}) {
    if (location.file_offset < 0) continue;
    std::size_t border =
        LayerStore::kPieceBytes - static_cast<std::size_t>(location.file_offset) % LayerStore::kPieceBytes;
    for (std::size_t begin = 0; begin < location.bytes; border += LayerStore::kPieceBytes) {
      const std::size_t end = std::min(border, location.bytes);
      pieces.push_back({tensor, begin, end});
      begin = end;
    }
  }
  const auto heads = static_cast<std::size_t>(num_kv_heads);
  std::ranges::stable_sort(pieces, {},
                           [&](const KvPiece& piece) { return piece.begin / (location_of(piece).bytes / heads); });
  return with_small_end(std::move(pieces), offset_of);
}

bool read_piece(const InputFile& file, std::int64_t tensor_offset, const KvPiece& piece, ElementType type,
                const BlockObserver& observe, std::span<std::byte> out) {
  const std::size_t element = size_of(type);
  const auto in_file = [&](std::size_t at) { return static_cast<std::uint64_t>(tensor_offset) + at; };
  std::size_t checked = std::min(piece.end, (piece.begin + element - 1) / element * element);
  bool finite = true;
  for (std::size_t begin = piece.begin; begin < piece.end;) {
    const std::size_t end = std::min(piece.end, begin + kFileBlock - in_file(begin) % kFileBlock);
    const std::span<std::byte> block = out.subspan(begin - piece.begin, end - begin);
    file.read(in_file(begin), block);
    if (const std::size_t whole = end / element * element; whole > checked) {
      finite = all_finite(type, out.subspan(checked - piece.begin, whole - checked)) && finite;
      checked = whole;
    }
    if (observe && block.size() == kFileBlock) observe(in_file(begin) / kFileBlock, block);
    begin = end;
  }
  if (checked < piece.end) {  // the last element ends in the next piece
    std::vector<std::byte> cut(element);
    file.read(in_file(checked), cut);
    finite = all_finite(type, cut) && finite;
  }
  return finite;
}

}  // namespace attest
