// ChunkReader: decodes what HDF5 decodes, and refuses chunks that do not give the bytes that they should.
#include "dumps/hdf5/chunk_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <functional>
#include <numeric>
#include <vector>

#include "dumps/hdf5/dataset.h"
#include "tests/dumps/format/bad_dump.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

using ::testing::HasSubstr;

const std::vector<hsize_t> kShape{5, 7, 3};
constexpr hsize_t kChunk[]{2, 4, 2};  // does not divide the shape
constexpr std::size_t kChunkBytes = 2 * 4 * 2 * 4;

std::vector<std::int32_t> counted() {
  std::vector<std::int32_t> values(5 * 7 * 3);
  std::iota(values.begin(), values.end(), 1000);
  return values;
}

/// The bytes of a compressed chunk that inflates to `size` bytes.
std::vector<Bytef> deflated(std::size_t size) {
  const std::vector<Bytef> plain(size, 7);
  std::vector<Bytef> packed(compressBound(size));
  uLongf packed_size = packed.size();
  if (compress(packed.data(), &packed_size, plain.data(), size) != Z_OK) throw std::runtime_error("zlib");
  packed.resize(packed_size);
  return packed;
}

class ChunkReaderTest : public ::testing::Test {
 protected:
  /// A file with the data set "x" of counted numbers in chunks, with the filters that `filters` sets.
  void write(const std::function<void(hid_t)>& filters) {
    const hdf5::Lock lock;
    { const Handle made = own(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)); }
    const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
    done(H5Pset_chunk(properties.get(), 3, kChunk));
    filters(properties.get());
    Edit(path_).dataset("/x", H5T_STD_I32LE, kShape, counted().data(), properties.get());
  }
  /// Replaces the bytes of the chunk at [2, 4, 0]. `left_out`: a bit for each filter that the chunk lacks.
  void replace_chunk(const std::vector<Bytef>& bytes, unsigned left_out = 0) { replace(2, 4, 0, bytes, left_out); }
  void replace(hsize_t i, hsize_t j, hsize_t k, const std::vector<Bytef>& bytes, unsigned left_out = 0) {
    const Edit edit(path_);
    const hsize_t first[]{i, j, k};
    const Handle data = edit.open("/x");
    done(H5Dwrite_chunk(data.get(), H5P_DEFAULT, left_out, first, bytes.size(), bytes.data()));
  }
  std::vector<std::int32_t> read() const {
    const hdf5::Lock lock;
    std::vector<std::int32_t> values;
    const hdf5::Dataset data(hdf5::root_of(hdf5::open_file(path_)).open("x"));
    data.read_slabs([&](std::span<const std::byte> slab) {
      const auto* first = reinterpret_cast<const std::int32_t*>(slab.data());
      values.insert(values.end(), first, first + slab.size() / 4);
    });
    return values;
  }
  /// The error of reading the values, by either way.
  std::string error() const {
    const hdf5::Lock lock;
    const std::string of_slabs = message_of<InputError>([&] { read(); });
    EXPECT_EQ(of_slabs, message_of<InputError>(
                            [&] { hdf5::Dataset(hdf5::root_of(hdf5::open_file(path_)).open("x")).read_integers(); }));
    const std::string start = path_ + ": /x: ";
    return of_slabs.starts_with(start) ? of_slabs.substr(start.size()) : of_slabs;
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("x.h5");
};

TEST_F(ChunkReaderTest, DecodesEveryOrderOfFilters) {
  const auto gzip = [](hid_t p) { done(H5Pset_deflate(p, 4)); };
  const auto shuffle = [](hid_t p) { done(H5Pset_shuffle(p)); };
  const auto checksum = [](hid_t p) { done(H5Pset_fletcher32(p)); };
  const std::vector<std::vector<std::function<void(hid_t)>>> pipelines{
      {}, {gzip}, {shuffle, gzip}, {gzip, shuffle}, {checksum}, {checksum, gzip}, {shuffle, gzip, checksum}};
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    write([&](hid_t p) {
      for (const auto& filter : pipelines[i]) filter(p);
    });
    EXPECT_EQ(read(), counted()) << "pipeline " << i;
    EXPECT_EQ(error(), "") << "pipeline " << i;
  }
}

TEST_F(ChunkReaderTest, RefusesChunksThatInflateToAnotherSize) {
  write([](hid_t p) { done(H5Pset_deflate(p, 4)); });
  replace_chunk(deflated(kChunkBytes));
  EXPECT_EQ(error(), "");
  replace_chunk(deflated(kChunkBytes / 2));
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] holds 32 bytes of values, expected 64");
  replace_chunk(deflated(0));
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] holds 0 bytes of values, expected 64");
  replace_chunk(deflated(kChunkBytes + 1));
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] is cut off, or inflates to more than the expected 64 bytes");
  std::vector<Bytef> cut = deflated(kChunkBytes);
  cut.resize(cut.size() / 2);
  replace_chunk(cut);
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] is damaged: its gzip stream cannot be inflated");
}

TEST_F(ChunkReaderTest, RefusesSmallChunksWithoutFilters) {
  write([](hid_t p) { done(H5Pset_shuffle(p)); });
  replace_chunk(std::vector<Bytef>(kChunkBytes - 4));
  replace(4, 4, 2, std::vector<Bytef>(kChunkBytes + 4));  // so that the sum is what it should be
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] holds 60 bytes of values, expected 64");
  write([](hid_t p) { done(H5Pset_deflate(p, 4)); });
  replace_chunk(std::vector<Bytef>(8), 1);
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] holds 8 bytes of values, expected 64");
}

TEST_F(ChunkReaderTest, RefusesAWrongChecksum) {
  write([](hid_t p) { done(H5Pset_fletcher32(p)); });
  replace_chunk(std::vector<Bytef>(kChunkBytes + 4, 1));
  EXPECT_EQ(error(), "its chunk at [2, 4, 0] is damaged: its checksum does not agree");
}

TEST_F(ChunkReaderTest, RefusesFiltersThatItDoesNotKnow) {
  write([](hid_t p) { done(H5Pset_scaleoffset(p, H5Z_SO_INT, 0)); });
  EXPECT_THAT(error(), HasSubstr("needs the filter 6 (scaleoffset), which is not available"));
  write([](hid_t p) {
    done(H5Pset_deflate(p, 4));
    done(H5Pset_deflate(p, 4));
  });
  EXPECT_EQ(error(), "is compressed twice, expected once");
}

}  // namespace
}  // namespace attest::test
