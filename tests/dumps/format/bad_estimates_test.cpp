// Malformed files of estimates: each is refused in one sentence.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "dumps/base/error.h"
#include "dumps/format/estimate_reader.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

const std::string kGroup = "/samples/first/layers/2", kEstimate = kGroup + "/estimate";

class BadEstimates : public ::testing::Test {
 protected:
  /// The sentence about the good file after `change`, without the file's name. Reads all values.
  std::string sentence(const std::function<void(const Edit&)>& change) {
    write_small_dump(path_, {.overwrite = true});
    {
      const Edit edit(path_);
      edit.zeros(kEstimate, H5T_IEEE_F32LE, {3, 6, 40});
      change(edit);
    }
    return sentence();
  }
  std::string sentence() const {
    const EstimatedLayer layers[]{{"first", 2, small_header().shape, 3, 40}};
    return refusal_of_file<InputError>(path_, [&] {
      const EstimateReader reader({path_, "estimate", 1}, layers);
      LayerEstimates out(std::pmr::get_default_resource());
      reader.read("first", 2, out);
    });
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("own.h5");
};

TEST_F(BadEstimates, TheGoodFileIsRead) {
  EXPECT_EQ(sentence([](const Edit&) {}), "");
  EXPECT_EQ(sentence([](const Edit& e) { e.zeros(kEstimate, H5T_IEEE_F64LE, {3, 2, 40}); }), "");
}

TEST_F(BadEstimates, PartsAreMissing) {
  EXPECT_EQ(sentence([](const Edit& e) { e.remove(kEstimate); }), kGroup + ": 'estimate' is missing");
  EXPECT_EQ(sentence([](const Edit& e) { e.remove(kGroup); }), "/samples/first/layers: '2' is missing");
  EXPECT_EQ(sentence([](const Edit& e) { e.remove("/samples/first"); }), "/samples: 'first' is missing");
  EXPECT_EQ(sentence([](const Edit& e) { e.remove("/samples"); }), "/: 'samples' is missing");
  EXPECT_EQ(sentence([](const Edit& e) {
              e.remove(kEstimate);
              e.group(kEstimate);
            }),
            kEstimate + ": is not a data set, expected one");
}

/// Within the processor time of metadata: the file is opened once, and so is each of its groups.
TEST_F(BadEstimates, ManySamplesAndLayersAreNoDamage) {
  write_small_dump(path_);
  {
    const Edit edit(path_);
    edit.zeros(kEstimate, H5T_IEEE_F32LE, {3, 6, 40});
    for (int i = 0; i < 20000; ++i)
      done(H5Lcreate_hard(edit.file(), "/samples/first", edit.file(), ("/samples/" + std::to_string(i)).c_str(),
                          H5P_DEFAULT, H5P_DEFAULT));
  }
  const std::vector<EstimatedLayer> layers(2000, {"first", 2, small_header().shape, 3, 40});
  EXPECT_EQ(message_of<InputError>([&] { EstimateReader({path_, "estimate", 1}, layers); }), "");
}

TEST_F(BadEstimates, ChangedAfterTheyWereOpened) {
  const EstimatedLayer layers[]{{"first", 2, small_header().shape, 3, 40}};
  const Handle half = float_type(5, 10, 15), chunks = own(H5Pcreate(H5P_DATASET_CREATE));
  done(H5Pset_chunk(chunks.get(), 3, std::vector<hsize_t>{3, 6, 20}.data()));
  for (const auto& [type, tokens] : {std::pair(H5T_IEEE_F32LE, hsize_t{60}), {half.get(), hsize_t{80}}}) {
    write_small_dump(path_, {.overwrite = true});
    Edit(path_).zeros(kEstimate, H5T_IEEE_F32LE, {3, 6, 40}, chunks.get());
    const EstimateReader reader({path_, "estimate", 1}, layers);
    Edit(path_).zeros(kEstimate, type, {3, 6, tokens}, chunks.get());
    LayerEstimates out(std::pmr::get_default_resource());
    EXPECT_EQ(
        message_of<InputError>([&] { reader.read("first", 2, out); }),
        path_ + ": " + kEstimate + ": has another size or element type, the file has changed since it was opened");
  }
}

TEST_F(BadEstimates, AFileThatTakesTheirPlaceIsNotRead) {
  const EstimatedLayer layers[]{{"first", 2, small_header().shape, 3, 40}};
  const std::string other = folder_.file("other.h5");
  const Handle chunks = own(H5Pcreate(H5P_DATASET_CREATE));
  done(H5Pset_chunk(chunks.get(), 3, std::vector<hsize_t>{3, 6, 20}.data()));
  for (const auto& [path, estimate] : {std::pair(path_, 1.0f), {other, 2.0f}}) {
    write_small_dump(path);
    Edit(path).dataset(kEstimate, H5T_IEEE_F32LE, {3, 6, 40}, std::vector<float>(720, estimate).data(), chunks.get());
  }
  const EstimateReader reader({path_, "estimate", 1}, layers);
  std::filesystem::rename(other, path_);
  LayerEstimates out(std::pmr::get_default_resource());
  EXPECT_EQ(message_of<InputError>([&] { reader.read("first", 2, out); }),
            path_ + ": another file has taken its place since it was opened");
}

TEST_F(BadEstimates, Shapes) {
  const std::string expected =
      ", expected [3, 6, 40] (query positions of the dump, num_query_heads or num_kv_heads, num_tokens)";
  const std::pair<std::vector<hsize_t>, std::string> shapes[]{{{3, 6}, "[3, 6]"},
                                                              {{3, 6, 39}, "[3, 6, 39]"},
                                                              {{3, 6, 41}, "[3, 6, 41]"},
                                                              {{2, 6, 40}, "[2, 6, 40]"},
                                                              {{3, 3, 40}, "[3, 3, 40]"},
                                                              {{0, 6, 40}, "[0, 6, 40]"},
                                                              {{3, 6, 40, 1}, "[3, 6, 40, 1]"},
                                                              {{}, "[]"}};
  for (const auto& [extents, found] : shapes)
    EXPECT_EQ(sentence([&, shape = extents](const Edit& e) { e.zeros(kEstimate, H5T_IEEE_F32LE, shape); }),
              kEstimate + ": has the shape " + found + expected);
}

TEST_F(BadEstimates, Types) {
  const std::pair<hid_t, std::string> types[]{
      {H5T_STD_I32LE, "little-endian integer of 32 bits"},
      {H5T_STD_U16LE, "little-endian unsigned integer of 16 bits"},
      {H5T_IEEE_F64BE, "big-endian float of 64 bits (11 of exponent, 52 of mantissa)"},
      {H5T_C_S1, "string"},
      {H5T_STD_REF_OBJ, "reference"}};
  for (const auto& [type, found] : types)
    EXPECT_EQ(sentence([&, kind = type](const Edit& e) {
                e.zeros(kEstimate, kind, {3, 6, 40});
              }),
              kEstimate + ": has elements of type " + found + ", expected little-endian float16, float32 or float64");
}

TEST_F(BadEstimates, Storage) {
  const auto stored = [&](const std::function<void(hid_t)>& set) {
    return sentence([&](const Edit& e) {
      const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
      set(properties.get());
      e.dataset(kEstimate, H5T_IEEE_F32LE, {3, 6, 40}, nullptr, properties.get());
    });
  };
  const hsize_t chunk[]{1, 6, 40};
  EXPECT_EQ(stored([](hid_t) {}), kEstimate + ": its values were never written");
  EXPECT_TRUE(
      stored([&](hid_t p) {
        done(H5Pset_chunk(p, 3, chunk));
        done(H5Pset_deflate(p, 1));
      }).starts_with(kEstimate + ": claims 2880 bytes of values (shape [3, 6, 40], chunks [1, 6, 40]), the file has "));
  EXPECT_EQ(stored([](hid_t p) { done(H5Pset_external(p, "other.bin", 0, H5F_UNLIMITED)); }),
            kEstimate + ": its values lie in another file, expected them in this one");
  EXPECT_EQ(stored([](hid_t p) {
              const hsize_t extents[]{3, 6, 40};
              const Handle space = own(H5Screate_simple(3, extents, nullptr));
              done(H5Pset_virtual(p, space.get(), "other.h5", "/x", space.get()));
            }),
            kEstimate + ": is a virtual data set, expected its values in this file");
}

TEST_F(BadEstimates, AChunkThatInflatesToLess) {
  const std::string message = sentence([&](const Edit& e) {
    const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[]{3, 6, 40}, first[]{0, 0, 0};
    done(H5Pset_chunk(properties.get(), 3, chunk));
    done(H5Pset_deflate(properties.get(), 9));
    e.zeros(kEstimate, H5T_IEEE_F32LE, {3, 6, 40}, properties.get());
    // An empty stream of zlib with a good checksum.
    const unsigned char nothing[]{0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01};
    done(H5Dwrite_chunk(e.open(kEstimate).get(), H5P_DEFAULT, 0, first, sizeof nothing, nothing));
  });
  EXPECT_EQ(message, kEstimate + ": its chunk at [0, 0, 0] holds 0 bytes of values, expected 2880");
}

TEST_F(BadEstimates, LinksAreNotFollowedOutOfTheFile) {
  EXPECT_EQ(sentence([](const Edit& e) {
              e.remove(kEstimate);
              e.external_link("other.h5", "/x", kEstimate);
            }),
            kGroup + ": 'estimate' is a link into another file, which is not followed");
  EXPECT_TRUE(sentence([](const Edit& e) {
                e.remove(kEstimate);
                e.soft_link("estimate", kEstimate);
              }).starts_with(kGroup + ": 'estimate' is a soft link that leads nowhere"));
}

TEST_F(BadEstimates, WhatIsNoHdf5File) {
  EXPECT_EQ(sentence(), "cannot be opened (No such file or directory)");
  folder_.write("own.h5", "");
  EXPECT_EQ(sentence(), "is not an HDF5 file, it is empty");
  folder_.write("own.h5", "x,y\n1,2\n");
  EXPECT_EQ(sentence(), "is not an HDF5 file, it has no HDF5 signature");
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(sentence(), "expected a file, found a pipe");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(sentence(), "expected a file, found a folder");
}

}  // namespace
}  // namespace attest::test
