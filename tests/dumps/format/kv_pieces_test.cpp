// Pieces of keys and values: each byte in one, heads in order; read with their blocks and bad values.
#include "dumps/format/kv_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "dumps/base/error.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

constexpr std::size_t kPiece = LayerStore::kPieceBytes;

TEST(KvPieces, HoldEachByteOnce) {
  const std::size_t head = 3 * kPiece + 1000;
  for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{2048}, std::int64_t{kPiece} + 3}) {
    const TensorLocation k{.file_offset = offset, .bytes = 4 * head},
        v{.file_offset = offset + 999, .bytes = 4 * (head / 2)};
    std::map<KvTensor, std::vector<std::pair<std::size_t, std::size_t>>> found;
    std::size_t last_head = 0;
    for (const KvPiece& piece : kv_pieces(k, v, 4)) {
      const bool keys = piece.tensor == KvTensor::k;
      EXPECT_LE(piece.end - piece.begin, kPiece);
      const std::size_t end = static_cast<std::size_t>((keys ? k : v).file_offset) + piece.end;
      EXPECT_TRUE(end % kFileBlock == 0 || piece.end == (keys ? k : v).bytes) << "whole blocks of the file";
      const std::size_t of_head = piece.begin / (keys ? head : head / 2);
      EXPECT_GE(of_head, last_head) << "heads in order";
      last_head = of_head;
      found[piece.tensor].emplace_back(piece.begin, piece.end);
    }
    for (const auto& [tensor, bytes] : {std::pair(KvTensor::k, k.bytes), std::pair(KvTensor::v, v.bytes)}) {
      std::ranges::sort(found[tensor]);
      std::size_t at = 0;
      for (const auto& [begin, end] : found[tensor]) {
        EXPECT_EQ(begin, at);
        at = end;
      }
      EXPECT_EQ(at, bytes);
    }
  }
}

TEST(KvPieces, LeaveOutWhatIsNotContiguous) {
  const TensorLocation contiguous{.file_offset = 8, .bytes = 100}, decoded{.file_offset = -1, .bytes = 100};
  EXPECT_EQ(kv_pieces(contiguous, decoded, 1), (std::vector<KvPiece>{{KvTensor::k, 0, 100}}));
  EXPECT_EQ(kv_pieces(decoded, contiguous, 1), (std::vector<KvPiece>{{KvTensor::v, 0, 100}}));
}

/// A file of float16 numbers from `kOffset` on, all finite but one; its tensor is cut inside an element.
class ReadPieceTest : public testing::Test {
 protected:
  static constexpr std::size_t kOffset = 7, kBytes = 2 * kPiece + 500'000, kBlocks = 2 * kPiece / kFileBlock;

  ReadPieceTest() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<char>(i * 2654435761u >> 13 & 0x3F);
  }
  std::vector<KvPiece> pieces() const {
    return kv_pieces({.file_offset = kOffset, .bytes = kBytes}, {.file_offset = -1, .bytes = kBytes}, 1);
  }
  InputFile file() const {
    folder_.write("tensor", bytes_);
    return InputFile(folder_.file("tensor"));
  }

  ScratchFolder folder_;
  std::string bytes_ = std::string(kOffset + kBytes, '\0');
};

TEST_F(ReadPieceTest, GivesTheBytesAndTheWholeBlocks) {
  const InputFile from = file();
  std::string read(kBytes, '\xEE');
  std::map<std::uint64_t, std::string> blocks;
  for (const KvPiece& piece : pieces()) {
    std::vector<std::byte> out(piece.end - piece.begin);
    const BlockObserver observe = [&](std::uint64_t block, std::span<const std::byte> bytes) {
      EXPECT_TRUE(blocks.emplace(block, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())).second);
    };
    EXPECT_TRUE(read_piece(from, kOffset, piece, ElementType::float16, observe, out));
    std::memcpy(read.data() + piece.begin, out.data(), out.size());
  }
  EXPECT_TRUE(read == bytes_.substr(kOffset));
  EXPECT_EQ(blocks.size(), kBlocks - 1) << "all but the first, which has bytes before the tensor, and the last";
  for (const auto& [block, bytes] : blocks) EXPECT_TRUE(bytes == bytes_.substr(block * kFileBlock, kFileBlock));
}

TEST_F(ReadPieceTest, FindsABadElementWhereverItIs) {
  ASSERT_EQ(pieces().size(), 3u);
  const std::size_t first_border = pieces()[0].end;
  ASSERT_EQ(first_border % 2, 1u) << "a piece ends inside an element";
  for (const std::size_t element : {std::size_t{0}, kFileBlock / 2 - 4, first_border / 2 - 1, first_border / 2,
                                    first_border / 2 + 1, kBytes / 2 - 1}) {
    const std::string before = bytes_;
    bytes_.replace(kOffset + 2 * element, 2, std::string("\x01\x7C", 2));  // NaN
    const InputFile from = file();
    std::vector<bool> finite;
    for (const KvPiece& piece : pieces()) {
      std::vector<std::byte> out(piece.end - piece.begin);
      finite.push_back(read_piece(from, kOffset, piece, ElementType::float16, {}, out));
      EXPECT_EQ(finite.back(), !(2 * element >= piece.begin && 2 * element < piece.end)) << element;
    }
    EXPECT_EQ(std::ranges::count(finite, false), 1) << element;
    bytes_ = before;
  }
}

TEST_F(ReadPieceTest, ChecksNothingIfNotAskedTo) {
  bytes_.replace(kOffset + 4, 2, std::string("\x01\x7C", 2));  // NaN
  const InputFile from = file();
  const KvPiece first = pieces().front();
  std::vector<std::byte> out(first.end - first.begin);
  EXPECT_FALSE(read_piece(from, kOffset, first, ElementType::float16, {}, out));
  EXPECT_TRUE(read_piece(from, kOffset, first, ElementType::float16, {}, out, ValueCheck::no));
  EXPECT_EQ(std::memcmp(out.data(), bytes_.data() + kOffset, out.size()), 0);
}

TEST(LayerBlocks, AreWholeOrCut) {
  constexpr auto kBlock = static_cast<std::int64_t>(kFileBlock);
  const TensorLocation k{.file_offset = 3 * kBlock - 8, .bytes = 2 * kFileBlock + 8},
      v{.file_offset = 5 * kBlock, .bytes = kFileBlock - 1}, decoded{.file_offset = -1, .bytes = 9 * kFileBlock};
  const LayerBlocks blocks = layer_blocks(k, v);
  EXPECT_EQ(blocks.whole, (std::vector<TensorBlock>{{KvTensor::k, 8, 3}, {KvTensor::k, kFileBlock + 8, 4}}));
  EXPECT_EQ(blocks.cut, (std::vector<std::uint64_t>{2, 5}));
  EXPECT_EQ(layer_blocks(decoded, v).cut, (std::vector<std::uint64_t>{5}));
  EXPECT_TRUE(layer_blocks(decoded, {.file_offset = 8, .bytes = 0}).cut.empty());
}

TEST_F(ReadPieceTest, SaysWhenTheFileIsTooShort) {
  bytes_.resize(bytes_.size() - 10);
  const InputFile from = file();
  const KvPiece last = pieces().back();
  std::vector<std::byte> out(last.end - last.begin);
  EXPECT_THROW(read_piece(from, kOffset, last, ElementType::float16, {}, out), InputError);
}

}  // namespace
}  // namespace attest
