// Checks with plain HDF5 calls what FileWriter writes. h5py_roundtrip_test.py and run_test.py check that h5py
// reads it.
#include "dumps/hdf5/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <stdexcept>

#include "dumps/base/error.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::hdf5 {
namespace {

using attest::test::done;
using attest::test::own;
using ::testing::ElementsAre;
using ::testing::MatchesRegex;

/// A file opened with plain HDF5 calls.
class Seen {
 public:
  explicit Seen(const std::string& path) : file_(own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT))) {}

  Handle open(const std::string& object) const { return own(H5Oopen(file_.get(), object.c_str(), H5P_DEFAULT)); }
  Handle creation(const std::string& dataset) const { return own(H5Dget_create_plist(open(dataset).get())); }
  H5O_info_t info(const std::string& object) const {
    H5O_info_t info{};
    done(H5Oget_info_by_name2(file_.get(), object.c_str(), &info, H5O_INFO_BASIC | H5O_INFO_TIME, H5P_DEFAULT));
    return info;
  }
  Handle attribute(const std::string& object, const char* name) const {
    return own(H5Aopen(open(object).get(), name, H5P_DEFAULT));
  }
  template <class T>
  T number(const std::string& object, const char* name, hid_t type) const {
    const Handle attribute = this->attribute(object, name);
    EXPECT_GT(H5Tequal(own(H5Aget_type(attribute.get())).get(), type), 0) << name;
    EXPECT_EQ(H5Sget_simple_extent_type(own(H5Aget_space(attribute.get())).get()), H5S_SCALAR) << name;
    T value{};
    done(H5Aread(attribute.get(), type, &value));
    return value;
  }
  std::vector<std::string> texts(const std::string& object, const char* name) const {
    const Handle attribute = this->attribute(object, name);
    const Handle type = own(H5Aget_type(attribute.get())), space = own(H5Aget_space(attribute.get()));
    EXPECT_GT(H5Tis_variable_str(type.get()), 0);
    EXPECT_EQ(H5Tget_cset(type.get()), H5T_CSET_UTF8);
    std::vector<char*> pointers(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())));
    done(H5Aread(attribute.get(), type.get(), pointers.data()));
    std::vector<std::string> result(pointers.begin(), pointers.end());
    done(H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, pointers.data()));
    return result;
  }
  template <class T>
  std::vector<T> values(const std::string& dataset, hid_t type) const {
    const Handle data = open(dataset);
    EXPECT_GT(H5Tequal(own(H5Dget_type(data.get())).get(), type), 0) << dataset;
    std::vector<T> result(static_cast<std::size_t>(H5Sget_simple_extent_npoints(own(H5Dget_space(data.get())).get())));
    done(H5Dread(data.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, result.data()));
    return result;
  }
  std::vector<hsize_t> shape(const std::string& dataset) const {
    const Handle space = own(H5Dget_space(open(dataset).get()));
    std::vector<hsize_t> shape(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
    done(H5Sget_simple_extent_dims(space.get(), shape.data(), nullptr));
    return shape;
  }
  std::string link(const std::string& group, H5_index_t index, hsize_t i) const {
    char name[64] = "";
    done(H5Lget_name_by_idx(file_.get(), group.c_str(), index, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT));
    return name;
  }

 private:
  Lock lock_;
  Handle file_;
};

class FileWriterTest : public ::testing::Test {
 protected:
  /// A file with the content that `write` writes.
  template <class Write>
  Seen written(Write&& write) {
    FileWriter file(path_);
    write(file);
    file.finish();
    return Seen(path_);
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("a.h5");
};

TEST_F(FileWriterTest, AttributesHaveTheirTypes) {
  const Seen seen = written([](const FileWriter& file) {
    const Handle group = file.create_group(file.root(), "g");
    file.write_attribute(group, "int", -3);
    file.write_attribute(group, "int64", std::int64_t{1} << 40);
    file.write_attribute(group, "double", 0.1);
    file.write_attribute(group, "text", "µ");
    file.write_attribute(group, "empty", std::string());
    file.write_attribute(group, "long", std::string(100'000, 'x'));
    file.write_attribute(group, "list", std::vector<std::string>{"a", "", "bc"});
    file.write_attribute(file.root(), "at root", 1);
  });
  EXPECT_EQ(seen.number<std::int64_t>("g", "int", H5T_STD_I64LE), -3);
  EXPECT_EQ(seen.number<std::int64_t>("g", "int64", H5T_STD_I64LE), std::int64_t{1} << 40);
  EXPECT_EQ(seen.number<double>("g", "double", H5T_IEEE_F64LE), 0.1);
  EXPECT_EQ(seen.number<std::int64_t>("/", "at root", H5T_STD_I64LE), 1);
  EXPECT_THAT(seen.texts("g", "text"), ElementsAre("µ"));
  EXPECT_EQ(H5Sget_simple_extent_type(own(H5Aget_space(seen.attribute("g", "text").get())).get()), H5S_SCALAR);
  EXPECT_THAT(seen.texts("g", "empty"), ElementsAre(""));
  EXPECT_THAT(seen.texts("g", "long"), ElementsAre(std::string(100'000, 'x')));
  EXPECT_THAT(seen.texts("g", "list"), ElementsAre("a", "", "bc"));
}

TEST_F(FileWriterTest, GroupsListTheirLinksAsAskedFor) {
  const Seen seen = written([](const FileWriter& file) {
    for (const auto& [name, order] : {std::pair{"named", LinkOrder::by_name}, {"ordered", LinkOrder::by_creation}}) {
      const Handle group = file.create_group(file.root(), name, order);
      for (const char* inner : {"z", "a", "m"}) file.create_group(group, inner);
    }
  });
  EXPECT_EQ(seen.link("ordered", H5_INDEX_CRT_ORDER, 0), "z");
  EXPECT_EQ(seen.link("ordered", H5_INDEX_CRT_ORDER, 1), "a");
  EXPECT_EQ(seen.link("ordered", H5_INDEX_NAME, 0), "a");
  EXPECT_EQ(seen.link("named", H5_INDEX_NAME, 0), "a");
  EXPECT_THROW(seen.link("named", H5_INDEX_CRT_ORDER, 0), std::runtime_error);
}

TEST_F(FileWriterTest, WholeDataSetsOfEveryType) {
  const Seen seen = written([](const FileWriter& file) {
    const std::vector<std::uint8_t> bytes{1, 255};
    const std::vector<std::int32_t> ints{-1, 2, 3, 4, 5, 6};
    const std::vector<float> floats{0.5f, std::numeric_limits<float>::infinity()};
    file.write_dataset<std::uint8_t>(file.root(), "u8", bytes, {2});
    file.write_dataset<std::int32_t>(file.root(), "i32", ints, {2, 3});
    file.write_dataset<std::int64_t>(file.root(), "i64", std::vector<std::int64_t>{}, {0});
    file.write_dataset<float>(file.root(), "f32", floats, {2}, {.axis_labels = {"layer"}});
    file.write_dataset<double>(file.root(), "f64", std::vector<double>{0.1}, {1});
    file.write_dataset(file.root(), "texts", {"one", "", "µ"});
  });
  EXPECT_THAT(seen.values<std::uint8_t>("u8", H5T_STD_U8LE), ElementsAre(1, 255));
  EXPECT_THAT(seen.values<std::int32_t>("i32", H5T_STD_I32LE), ElementsAre(-1, 2, 3, 4, 5, 6));
  EXPECT_THAT(seen.shape("i32"), ElementsAre(2, 3));
  EXPECT_THAT(seen.shape("i64"), ElementsAre(0));
  EXPECT_THAT(seen.values<float>("f32", H5T_IEEE_F32LE), ElementsAre(0.5f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(seen.texts("f32", "DIMENSION_LABELS"), ElementsAre("layer"));
  EXPECT_THAT(seen.values<double>("f64", H5T_IEEE_F64LE), ElementsAre(0.1));
  EXPECT_EQ(H5Aexists(seen.open("f64").get(), "DIMENSION_LABELS"), 0);
  const Handle texts = seen.open("texts");
  EXPECT_GT(H5Tis_variable_str(own(H5Dget_type(texts.get())).get()), 0);
  EXPECT_THAT(seen.shape("texts"), ElementsAre(3));
}

TEST_F(FileWriterTest, ScalesAreWrittenAsTheHighLevelLibraryWritesThem) {
  const Seen seen = written([](const FileWriter& file) {
    const std::vector<std::int32_t> small{3, 4};
    const std::vector<double> large(kMaxCompactBytes / sizeof(double) + 1, 0.5);
    DimensionScale x = file.write_scale<std::int32_t>(file.root(), "x", small);
    const DimensionScale y = file.write_scale<double>(file.root(), "y", large);
    file.write_dataset<std::int32_t>(file.root(), "d", std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2},
                                     {.axis_scales = {&x, &x}});
    file.finish_scale(file.root(), "x", x);
    file.finish_scale(file.root(), "y", y);
  });
  EXPECT_THAT(seen.values<std::int32_t>("x", H5T_STD_I32LE), ElementsAre(3, 4));
  EXPECT_EQ(seen.values<double>("y", H5T_IEEE_F64LE).back(), 0.5);
  EXPECT_EQ(H5Pget_layout(seen.creation("x").get()), H5D_COMPACT);
  EXPECT_EQ(H5Pget_layout(seen.creation("y").get()), H5D_CONTIGUOUS);
  char name[16] = "";
  const Handle scale_class = seen.attribute("y", "CLASS");
  done(H5Aread(scale_class.get(), own(H5Aget_type(scale_class.get())).get(), name));
  EXPECT_STREQ(name, "DIMENSION_SCALE");
  std::vector<DimensionScale::Axis> axes(2);
  const Handle list = seen.attribute("x", "REFERENCE_LIST"), type = own(H5Aget_type(list.get()));
  EXPECT_EQ(H5Tget_nmembers(type.get()), 2);
  done(H5Aread(list.get(), own(H5Tget_native_type(type.get(), H5T_DIR_DEFAULT)).get(), axes.data()));
  EXPECT_EQ(axes[0].data_set, seen.info("d").addr);
  EXPECT_EQ(axes[1].data_set, seen.info("d").addr);
  EXPECT_EQ(axes[0].number, 0);
  EXPECT_EQ(axes[1].number, 1);
  EXPECT_EQ(H5Aexists(seen.open("y").get(), "REFERENCE_LIST"), 0) << "it is attached to nothing";
}

TEST_F(FileWriterTest, BlocksGoToTheirPlaces) {
  const Seen seen = written([](const FileWriter& file) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Handle data =
        file.create_dataset<float>(file.root(), "d", {3, 2, 2}, {.fill = &nan, .axis_labels = {"a", "b", "c"}});
    const std::vector<float> row{1, 2, 3, 4}, column{5, 6};
    file.write_block(data, {2, 0, 0}, {1, 2, 2}, H5T_IEEE_F32LE, row.data());
    file.write_block(file.open(file.root(), "d"), {0, 1, 0}, {2, 1, 1}, H5T_IEEE_F32LE, column.data());
  });
  const auto isnan = ::testing::IsNan();
  EXPECT_THAT(seen.values<float>("d", H5T_IEEE_F32LE),
              ElementsAre(isnan, isnan, 5, isnan, isnan, isnan, 6, isnan, 1, 2, 3, 4));
  EXPECT_THAT(seen.texts("d", "DIMENSION_LABELS"), ElementsAre("a", "b", "c"));
}

TEST_F(FileWriterTest, RowsAreWrittenInAnyOrder) {
  const std::vector<float> large(1 << 18, 2.0f);
  const Seen seen = written([&](const FileWriter& file) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const RowPlaces rows = file.create_rows<float>(file.root(), "d", {3, 2, 2}, nan, {"a", "b", "c"});
    EXPECT_EQ(rows.num_rows, 3u);
    EXPECT_EQ(rows.row_bytes, 16u);
    const auto write = [&](std::size_t row, const std::vector<float>& values) {
      file.write_row(rows, row, std::as_bytes(std::span(values)));
    };
    write(2, {9, 10, 11, 12});
    // Data sets that HDF5 places and writes in between.
    file.write_dataset<float>(file.root(), "large", large, {large.size()});
    const RowPlaces flags = file.create_rows<std::uint8_t>(file.root(), "flags", {2}, 0, {"a"});
    const std::byte one{1}, seven{7};
    file.write_row(flags, 1, {&seven, 1});
    write(0, {1, 2, 3, 4});
    write(1, {5, 6, 7, 8});
    file.write_row(flags, 0, {&one, 1});
    file.start_sync();
    const RowPlaces none = file.create_rows<float>(file.root(), "none", {0, 2}, nan, {"a", "b"});
    EXPECT_EQ(none.num_rows, 0u);
    EXPECT_THROW(write(3, {1, 2, 3, 4}), std::logic_error);
    EXPECT_THROW(write(0, {1, 2, 3}), std::logic_error);
  });
  EXPECT_THAT(seen.values<float>("d", H5T_IEEE_F32LE), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(seen.values<std::uint8_t>("flags", H5T_STD_U8LE), ElementsAre(1, 7));
  EXPECT_EQ(seen.values<float>("large", H5T_IEEE_F32LE), large);
  EXPECT_THAT(seen.texts("d", "DIMENSION_LABELS"), ElementsAre("a", "b", "c"));
  float fill = 0;
  done(H5Pget_fill_value(seen.creation("d").get(), H5T_NATIVE_FLOAT, &fill));
  EXPECT_TRUE(std::isnan(fill));
}

TEST_F(FileWriterTest, StorageIsAsAskedFor) {
  const Seen seen = written([](const FileWriter& file) {
    const std::uint8_t seven = 7;
    file.create_dataset<float>(file.root(), "plain", {4, 6});
    file.create_dataset<std::uint8_t>(file.root(), "early", {4}, {.fill = &seven, .allocate_early = true});
    file.create_dataset<float>(file.root(), "gzip", {4, 6}, {.written_whole = true, .chunk = {1, 3}, .gzip_level = 5});
  });
  const auto allocation = [&](const char* name) {
    H5D_alloc_time_t time{};
    done(H5Pget_alloc_time(seen.creation(name).get(), &time));
    return time;
  };
  const auto filling = [&](const char* name) {
    H5D_fill_time_t time{};
    done(H5Pget_fill_time(seen.creation(name).get(), &time));
    return time;
  };
  EXPECT_EQ(H5Pget_layout(seen.creation("plain").get()), H5D_CONTIGUOUS);
  EXPECT_EQ(allocation("plain"), H5D_ALLOC_TIME_LATE);
  EXPECT_EQ(H5Dget_storage_size(seen.open("plain").get()), 0u);
  EXPECT_EQ(allocation("early"), H5D_ALLOC_TIME_EARLY);
  EXPECT_EQ(filling("early"), H5D_FILL_TIME_IFSET);
  EXPECT_THAT(seen.values<std::uint8_t>("early", H5T_STD_U8LE), ElementsAre(7, 7, 7, 7));
  const Handle gzip = seen.creation("gzip");
  hsize_t chunk[2];
  ASSERT_EQ(H5Pget_chunk(gzip.get(), 2, chunk), 2);
  EXPECT_THAT(chunk, ElementsAre(1, 3));
  EXPECT_EQ(filling("gzip"), H5D_FILL_TIME_NEVER);
  ASSERT_EQ(H5Pget_nfilters(gzip.get()), 2);
  unsigned level = 0;
  std::size_t parameters = 1;
  EXPECT_GE(H5Pget_filter_by_id2(gzip.get(), H5Z_FILTER_DEFLATE, nullptr, &parameters, &level, 0, nullptr, nullptr), 0);
  EXPECT_EQ(level, 5u);
}

TEST_F(FileWriterTest, NotesNoTimesAndPutsLargeDataAtPageBorders) {
  const std::vector<float> large(1 << 18, 1.0f);
  const Seen seen = written([&](const FileWriter& file) {
    file.create_group(file.root(), "g", LinkOrder::by_creation);
    file.write_dataset<float>(file.root(), "d", large, {large.size()});
  });
  for (const char* object : {"/", "g", "d"}) {
    const H5O_info_t info = seen.info(object);
    EXPECT_EQ(info.atime + info.mtime + info.ctime + info.btime, 0) << object;
  }
  EXPECT_EQ(H5Dget_offset(seen.open("d").get()) % 4096, 0u);
}

TEST_F(FileWriterTest, AppearsOnlyWhenFinished) {
  {
    const FileWriter file(path_);
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_FALSE(folder_.empty());
  }
  EXPECT_TRUE(folder_.empty()) << "an unfinished writer leaves nothing";
}

TEST_F(FileWriterTest, LeavesAnExistingFileAloneUnlessToldOtherwise) {
  folder_.write("a.h5", "precious");
  EXPECT_THROW(FileWriter(path_, {.overwrite = false}), OutputError);
  { const FileWriter unfinished(path_); }
  EXPECT_EQ(bytes_of_file(path_), "precious");
  FileWriter(path_).finish();
  EXPECT_EQ(bytes_of_file(path_).substr(1, 3), "HDF");
}

TEST_F(FileWriterTest, ErrorsCarryTheWordsOfHdf5) {
  const FileWriter file(path_);
  file.create_group(file.root(), "g");
  EXPECT_EQ(message_of<OutputError>([&] { file.create_group(file.root(), "g"); }),
            path_ + ": cannot be written (name already exists)");
  EXPECT_THAT(message_of<OutputError>([&] { file.open(file.root(), "h"); }),
              MatchesRegex(".*a.h5: cannot be written \\(.*(exist|found).*\\)"));
  const std::string absent = folder_.file("absent/a.h5");
  EXPECT_EQ(message_of<OutputError>([&] { FileWriter{absent}; }),
            absent + ": cannot be written (No such file or directory)");
}

TEST_F(FileWriterTest, MistakesOfTheCallerAreLogicErrors) {
  FileWriter file(path_);
  {
    const Handle data = file.create_dataset<float>(file.root(), "d", {2, 3});
    EXPECT_THROW(file.write_dataset<float>(file.root(), "e", std::vector<float>(7), {2, 3}), std::logic_error);
    EXPECT_THROW(file.finish(), std::logic_error) << "a data set is open";
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  file.finish();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

/// For a process of its own: a limit on file sizes simulates a full disk.
[[noreturn]] void write_with_limit(const std::string& path, rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of<OutputError>([&] {
    FileWriter file(path);
    file.write_dataset<float>(file.root(), "d", std::vector<float>(10'000), {10'000});
    file.finish();
  });
  std::fputs(message.c_str(), stderr);
  std::exit(message.empty() ? 0 : 5);
}

TEST_F(FileWriterTest, AFullDiskIsAnOutputErrorAndLeavesNothing) {
  for (const rlim_t bytes : {500, 20'000}) {
    EXPECT_EXIT(write_with_limit(path_, bytes), ::testing::ExitedWithCode(5),
                "a.h5: cannot be written \\(File too large\\)");
    EXPECT_TRUE(folder_.empty()) << bytes;
  }
}

}  // namespace
}  // namespace attest::hdf5
