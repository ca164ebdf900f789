// Every rejection of the format (dumps/README.md) that concerns the storage of values, and links.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/dumps/format/bad_dump.h"

namespace attest::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using BadDumpStorageTest = BadDumpTest;

// Storage of values.

TEST_F(BadDumpStorageTest, ValuesThatWereNeverWritten) {
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.dataset(kLayer + "/k", half_.get(), {2, 40, 8}, nullptr);
            }),
            kLayer + "/k: its values were never written");
}

TEST_F(BadDumpStorageTest, ChunksThatWereNeverWritten) {
  EXPECT_EQ(
      error_after([&](const Edit& e) {
        const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
        const hsize_t chunk[]{1, 10, 8};
        done(H5Pset_chunk(properties.get(), 3, chunk));
        done(H5Pset_deflate(properties.get(), 1));
        e.dataset(kLayer + "/k", half_.get(), {2, 40, 8}, nullptr, properties.get());
        const Handle data = e.open(kLayer + "/k");
        const Handle space = own(H5Dget_space(data.get()));
        const hsize_t start[]{0, 10, 0};
        done(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, chunk, nullptr));
        const Handle memory = own(H5Screate_simple(3, chunk, nullptr));
        std::vector<std::uint16_t> values(80);  // random: a deflated chunk of zeros could not hold what the file claims
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i * 40503u);
        done(H5Dwrite(data.get(), half_.get(), memory.get(), space.get(), H5P_DEFAULT, values.data()));
      }),
      kLayer + "/k: 1 of its 8 chunks were written, expected all");
}

TEST_F(BadDumpStorageTest, FilterThatIsNotAvailable) {
  constexpr H5Z_filter_t kFilter = 32001;  // registered for blosc
  const auto pass = [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) {
    return bytes;
  };
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, kFilter, 1, 1, "blosc", nullptr, nullptr, pass};
  const std::string message = error_after([&](const Edit& e) {
    done(H5Zregister(&filter));
    const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[]{1, 40, 8};
    done(H5Pset_chunk(properties.get(), 3, chunk));
    done(H5Pset_filter(properties.get(), kFilter, H5Z_FLAG_MANDATORY, 0, nullptr));
    e.zeros(kLayer + "/k", half_.get(), {2, 40, 8}, properties.get());
    done(H5Zunregister(kFilter));  // flushes what is open
  });
  EXPECT_EQ(message, kLayer +
                         "/k: needs the filter 32001 (blosc), which is not available; expected gzip, "
                         "shuffle or fletcher32");
}

TEST_F(BadDumpStorageTest, ExternalStorage) {
  folder_.write("elsewhere.bin", std::string(2 * 40 * 8 * 2, '\0'));
  EXPECT_EQ(error_after([&](const Edit& e) {
              const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
              done(H5Pset_external(properties.get(), folder_.file("elsewhere.bin").c_str(), 0, 2 * 40 * 8 * 2));
              e.dataset(kLayer + "/k", half_.get(), {2, 40, 8}, nullptr, properties.get());
            }),
            kLayer + "/k: its values lie in another file, expected them in this one");
}

TEST_F(BadDumpStorageTest, VirtualDataSet) {
  EXPECT_EQ(error_after([&](const Edit& e) {
              const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
              const hsize_t extents[]{2, 40, 8};
              const Handle space = own(H5Screate_simple(3, extents, nullptr));
              done(H5Pset_virtual(properties.get(), space.get(), "/etc/passwd", "/k", space.get()));
              e.dataset(kLayer + "/k", half_.get(), {2, 40, 8}, nullptr, properties.get());
            }),
            kLayer + "/k: is a virtual data set, expected its values in this file");
}

// HDF5 opens the sources of an unlimited mapping to tell the shape. A FIFO would block the reader, and this test, for
// ever.
TEST_F(BadDumpStorageTest, SourceOfAVirtualDataSetIsNotOpened) {
  const std::string source = folder_.file("fifo");
  ASSERT_EQ(::mkfifo(source.c_str(), 0600), 0);
  EXPECT_EQ(error_after([&](const Edit& e) {
              const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
              const hsize_t extents[]{2, 40, 8};
              const hsize_t maximum[]{2, H5S_UNLIMITED, 8};
              const hsize_t start[]{0, 0, 0};
              const hsize_t count[]{2, H5S_UNLIMITED, 8};
              const Handle space = own(H5Screate_simple(3, extents, maximum));
              done(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, count, nullptr));
              done(H5Pset_virtual(properties.get(), space.get(), source.c_str(), "/k", space.get()));
              e.remove(kLayer + "/k");
              const Handle whole = own(H5Screate_simple(3, extents, maximum));
              // Without handles that would open the source at their end.
              done(H5Dcreate2(e.file(), (kLayer + "/k").c_str(), half_.get(), whole.get(), H5P_DEFAULT,
                              properties.get(), H5P_DEFAULT));
            }),
            kLayer + "/k: is a virtual data set, expected its values in this file");
}

TEST_F(BadDumpStorageTest, DimensionsThatTheFileCannotHold) {
  const hsize_t tokens = hsize_t{1} << 30;
  const auto with = [&](hid_t properties) {
    return error_after([&](const Edit& e) {
      e.integer("/samples/second", "num_tokens", static_cast<std::int64_t>(tokens));
      e.dataset("/samples/second/layers/3/k", float_type(8, 7, 127).get(), {2, tokens, 8}, nullptr, properties);
    });
  };
  const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
  const hsize_t chunk[]{1, 1024, 8};
  done(H5Pset_chunk(properties.get(), 3, chunk));
  done(H5Pset_deflate(properties.get(), 1));
  EXPECT_THAT(with(properties.get()), StartsWith("/samples/second/layers/3/k: claims 34359738368 bytes of values "
                                                 "(shape [2, 1073741824, 8], chunks [1, 1024, 8]), the file has "));
}

TEST_F(BadDumpStorageTest, ContiguousValuesBeyondTheEndOfTheFile) {
  constexpr hsize_t kTokens = 1 << 26;
  write_old_format_dump(path_);
  {
    const Edit edit(path_);
    const Handle sparse = own(H5Pcreate(H5P_DATASET_CREATE));
    done(H5Pset_alloc_time(sparse.get(), H5D_ALLOC_TIME_EARLY));
    done(H5Pset_fill_time(sparse.get(), H5D_FILL_TIME_NEVER));
    edit.integer("/samples/second", "num_tokens", kTokens);
    edit.dataset("/samples/second/layers/3/k", float_type(8, 7, 127).get(), {2, kTokens, 8}, nullptr, sparse.get());
  }
  // Removes half of k and corrects the superblock: its end-of-file address is at byte 40.
  const std::uint64_t size = std::filesystem::file_size(path_) - kTokens * 16;
  std::filesystem::resize_file(path_, size);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40).write(reinterpret_cast<const char*>(&size), sizeof size);
  file.close();
  EXPECT_THAT(error(), AllOf(StartsWith("/samples/second/layers/3/k: claims 2147483648 bytes of values (shape [2, "
                                        "67108864, 8]) at offset "),
                             EndsWith(", the file has " + std::to_string(size) + " bytes")));
}

TEST_F(BadDumpStorageTest, MoreElementsThanNumbersCount) {
  EXPECT_THAT(error_after([&](const Edit& e) {
                const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
                const hsize_t chunk[]{1, 1, 1};
                done(H5Pset_chunk(properties.get(), 3, chunk));
                e.dataset(kLayer + "/k", half_.get(), {hsize_t{1} << 31, hsize_t{1} << 31, hsize_t{1} << 31}, nullptr,
                          properties.get());
              }),
              StartsWith(kLayer + "/k: claims a shape of [2147483648, 2147483648, 2147483648], the file has "));
}

// Links.

TEST_F(BadDumpStorageTest, DanglingLinks) {
  EXPECT_THAT(error_after([](const Edit& e) {
                e.remove(kLayer + "/k");
                e.soft_link("/nowhere", kLayer + "/k");
              }),
              StartsWith(kLayer + ": 'k' is a soft link that leads nowhere"));
  EXPECT_THAT(error_after([](const Edit& e) { e.soft_link("nowhere", "/samples/third"); }),
              StartsWith("/samples: 'third' is a soft link that leads nowhere"));
  EXPECT_THAT(error_after([](const Edit& e) { e.soft_link("nowhere", "/notes"); }),
              StartsWith("/: 'notes' is a soft link that leads nowhere"));
}

TEST_F(BadDumpStorageTest, LoopingLinks) {
  EXPECT_THAT(error_after([](const Edit& e) {
                e.soft_link("/samples/b", "/samples/a");
                e.soft_link("/samples/a", "/samples/b");
              }),
              AllOf(StartsWith("/samples: 'a' is a soft link that leads nowhere"), HasSubstr("too many")));
}

TEST_F(BadDumpStorageTest, ExternalLinks) {
  const std::string other = folder_.file("other.h5");
  write_small_dump(other);
  const std::string expected = " is a link into another file, which is not followed";
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.remove(kLayer + "/k");
              e.external_link(other, kLayer + "/k", kLayer + "/k");
            }),
            kLayer + ": 'k'" + expected);
  EXPECT_EQ(error_after([&](const Edit& e) { e.external_link(other, kFirst, "/samples/third"); }),
            "/samples: 'third'" + expected);
  EXPECT_EQ(error_after([&](const Edit& e) { e.external_link("missing.h5", "/", "/notes"); }), "/: 'notes'" + expected);
}

TEST_F(BadDumpStorageTest, SoftLinkThroughAnExternalOne) {
  const std::string other = folder_.file("other.h5");
  write_small_dump(other);
  EXPECT_THAT(error_after([&](const Edit& e) {
                e.group("/extra");
                e.external_link(other, "/samples", "/extra/out");
                e.soft_link("/extra/out/first", "/samples/third");
              }),
              StartsWith("/samples: 'third' is a soft link that leads nowhere"));
}

TEST_F(BadDumpStorageTest, HardLinkToAnAncestor) {
  EXPECT_THAT(error_after([](const Edit& e) {
                done(H5Lcreate_hard(e.file(), "/", e.file(), "/samples/third", H5P_DEFAULT, H5P_DEFAULT));
              }),
              StartsWith("/samples/third: attribute 'task' is missing"));
}

}  // namespace
}  // namespace attest::test
