// Dumps that another program replaces or changes after they were opened.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <tuple>

#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/memory_store.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

class ChangedDumpTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.file("dump.h5");
};

/// As `attest synth --force` puts one there while another command reads.
TEST_F(ChangedDumpTest, ADumpThatTakesItsPlaceIsNotRead) {
  for (const int gzip_level : {0, 1}) {
    write_small_dump(path_, {.overwrite = true, .gzip_level = gzip_level});
    const DumpReader reader(path_);
    const std::string other = folder_.file("other.h5");
    write_small_dump(other, {.overwrite = true, .gzip_level = gzip_level});
    Edit(other).zeros("/samples/first/layers/0/k", float_type(8, 7, 127).get(), {2, 40, 8});
    Edit(other).zeros("/samples/first/tokens", H5T_STD_I32LE, {40});
    std::filesystem::rename(other, path_);
    const std::string sentence = path_ + ": another file has taken its place since it was opened";
    EXPECT_EQ(message_of<InputError>([&] { reader.read_array<std::int32_t>(0, "tokens"); }), sentence);
    AttentionLayer layer;
    const auto read = [&] { std::ignore = reader.read_layer(0, 0, layer); };
    EXPECT_EQ(message_of<InputError>(read), gzip_level > 0 ? sentence : "")
        << "what is contiguous is read without HDF5";
    if (gzip_level == 0) {
      EXPECT_EQ(bytes_of(layer.k), bytes_of(small_k(small_samples()[0], 0, layer.element_type)));
    }
  }
}

TEST_F(ChangedDumpTest, SaysWhenTheFileShrinksAfterwards) {
  write_small_dump(path_);
  const DumpReader reader(path_);
  std::filesystem::resize_file(path_, 100);
  AttentionLayer layer;
  EXPECT_THROW(std::ignore = reader.read_layer(0, 0, layer), InputError);
}

/// As another program may while a dump is read: `grown` has one token more, `retyped` as many bytes.
TEST_F(ChangedDumpTest, SaysWhenWhatIsDecodedChangesAfterwards) {
  const Handle half = float_type(5, 10, 15), brain = float_type(8, 7, 127);
  const struct {
    std::string object;
    std::vector<hsize_t> grown;
    hid_t type;
    std::vector<hsize_t> retyped;
    hid_t other_type;
  } changes[]{{"layers/2/q", {4, 6, 8}, half.get(), {3, 6, 8}, brain.get()},
              {"layers/2/k", {2, 41, 8}, half.get(), {2, 20, 8}, H5T_IEEE_F32LE},
              {"layers/2/v", {2, 41, 5}, half.get(), {2, 40, 5}, brain.get()},
              {"layers/2/output", {3, 6, 6}, brain.get(), {3, 6, 5}, half.get()},
              {"layers/0/attention_mass", {6, 41}, H5T_IEEE_F32LE, {6, 80}, half.get()}};
  for (const auto& [object, grown, type, retyped, other_type] : changes)
    for (const bool grows : {true, false}) {
      write_small_dump(path_, {.overwrite = true, .gzip_level = 1});
      const DumpReader reader(path_);
      const std::string whole = "/samples/first/" + object;
      Edit(path_).zeros(whole, grows ? type : other_type, grows ? grown : retyped);
      AttentionLayer layer;
      const auto read = [&] {
        if (object.ends_with("mass")) return reader.read_array<float>(0, 0, "attention_mass").empty();
        if (object.ends_with("output")) return reader.read_array<float>(0, 2, "output").empty();
        return reader.read_layer(0, 2, layer);
      };
      const std::string sentence =
          path_ + ": " + whole + ": has another size or element type, the file has changed since it was opened";
      EXPECT_EQ(message_of<InputError>([&] { read(); }), sentence);
      if (object.ends_with("k") || object.ends_with("v")) {
        layer.store = std::make_shared<MemoryStore>();
        EXPECT_EQ(message_of<InputError>([&] { read_to_store(reader, 0, 2, layer); }), sentence);
      }
    }
  write_small_dump(path_, {.overwrite = true});
  const DumpReader reader(path_);
  Edit(path_).zeros("/samples/first/tokens", H5T_STD_I32LE, {41});
  EXPECT_EQ(message_of<InputError>([&] { reader.read_array<std::int32_t>(0, "tokens"); }),
            path_ + ": /samples/first/tokens: has another size, the file has changed since it was opened");
}

}  // namespace
}  // namespace attest::test
