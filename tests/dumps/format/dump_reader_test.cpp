// DumpReader: every field and value of a dump, in every storage, and from several threads.
#include "dumps/format/dump_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "dumps/base/error.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/memory_store.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

using ::testing::ElementsAre;

class DumpReaderTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.file("dump.h5");
};

void expect_all_values(const DumpReader& reader) {
  const std::vector<SampleInfo> samples = small_samples();
  AttentionLayer layer, stored;
  const auto store = std::make_shared<MemoryStore>();
  stored.store = store;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const int number : samples[i].layers) {
      SCOPED_TRACE(samples[i].name + ", layer " + std::to_string(number));
      EXPECT_TRUE(reader.read_layer(i, number, layer, number)) << "all finite, by any number of threads";
      const ElementType type = small_type(number);
      EXPECT_EQ(layer.element_type, type);
      EXPECT_EQ(bytes_of(layer.q), bytes_of(small_q(samples[i], number, type)));
      EXPECT_EQ(bytes_of(layer.k), bytes_of(small_k(samples[i], number, type)));
      EXPECT_EQ(bytes_of(layer.v), bytes_of(small_v(samples[i], number, type)));

      EXPECT_TRUE(read_to_store(reader, i, number, stored, number));
      EXPECT_TRUE(stored.in_store);
      EXPECT_EQ(bytes_of(stored.q), bytes_of(layer.q));
      EXPECT_EQ(stored.k.size() + stored.v.size(), 0u);
      EXPECT_EQ(bytes_of(store->k), bytes_of(layer.k));
      EXPECT_EQ(bytes_of(store->v), bytes_of(layer.v));
      EXPECT_EQ(store->arrival.wait(2, std::chrono::milliseconds(0)).heads, 2);
    }
  }
}

/// Stores the tensors of the small dump in another way, copying their bytes.
void restore_as(const std::string& path,
                const std::function<void(hid_t properties, const std::vector<hsize_t>&)>& store) {
  const Edit edit(path);
  for (const SampleInfo& sample : small_samples()) {
    for (const int layer : sample.layers) {
      const std::string group = "/samples/" + sample.name + "/layers/" + std::to_string(layer) + "/";
      const ElementType type = small_type(layer);
      const auto tokens = static_cast<hsize_t>(sample.num_tokens);
      const auto replace = [&](const char* name, const std::vector<hsize_t>& extents,
                               const std::vector<std::byte>& values) {
        const Handle data = edit.open(group + name);
        const Handle stored_type = own(H5Dget_type(data.get()));
        const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
        store(properties.get(), extents);
        edit.dataset(group + name, stored_type.get(), extents, values.data(), properties.get());
      };
      replace("q", {sample.query_positions.size(), 6, 8}, small_q(sample, layer, type));
      replace("k", {2, tokens, 8}, small_k(sample, layer, type));
      replace("v", {2, tokens, 5}, small_v(sample, layer, type));
    }
  }
}

TEST_F(DumpReaderTest, ReadsMetadata) {
  write_small_dump(path_);
  const DumpReader reader(path_);
  const DumpInfo& info = reader.info();
  EXPECT_EQ(info.path, path_);
  EXPECT_EQ(info.file_bytes, static_cast<std::int64_t>(std::filesystem::file_size(path_)));
  EXPECT_EQ(info.model, "test/tiny");
  EXPECT_EQ(info.num_layers, 6);
  EXPECT_EQ(info.shape, small_header().shape);
  EXPECT_EQ(info.softmax_scale, 0.3);
  EXPECT_EQ(info.logit_softcap, 50);
  EXPECT_EQ(info.rope, R"({"theta": 10000})");
  EXPECT_EQ(info.engine, "engine 1.2");
  EXPECT_EQ(info.kv_cache, "k=q8_0");
  EXPECT_EQ(info.source, "small_dump.h");
  EXPECT_EQ(info.created, "2025-01-02T03:04:05Z");
  ASSERT_EQ(info.samples.size(), 2u);
  const SampleInfo& first = info.samples[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.task, "ruler/niah");
  EXPECT_EQ(first.num_tokens, 40);
  EXPECT_EQ(first.prompt_length, 38);
  EXPECT_THAT(first.query_positions, ElementsAre(0, 17, 39));
  EXPECT_THAT(first.spans, ElementsAre(TokenSpan{3, 9}, TokenSpan{5, 30}));
  EXPECT_THAT(first.span_labels, ElementsAre("needle", "answer"));
  EXPECT_THAT(first.arrays, ElementsAre("tokens"));
  EXPECT_THAT(first.layers, ElementsAre(0, 2, 5));
  EXPECT_FALSE(info.samples[1].prompt_length);
  EXPECT_TRUE(info.samples[1].arrays.empty());
  EXPECT_THAT(info.samples[1].layers, ElementsAre(3));

  const LayerInfo& layer = reader.layer_info(0, 2);
  EXPECT_EQ(layer.element_type, ElementType::float16);
  EXPECT_EQ(layer.sliding_window, 16);
  EXPECT_THAT(layer.arrays, ElementsAre("output"));
  EXPECT_EQ(layer.output_type, ElementType::bfloat16);
  EXPECT_THAT(reader.layer_info(0, 5).arrays, ElementsAre("output", "output_lse"));
  EXPECT_EQ(reader.layer_info(0, 5).output_type, ElementType::float16);
  EXPECT_THAT(reader.layer_info(0, 0).arrays, ElementsAre("attention_mass"));
  EXPECT_EQ(layer.storage(), Storage::contiguous);
  EXPECT_EQ(layer.q.bytes, 3u * 6 * 8 * 2);
  EXPECT_EQ(layer.k.bytes, 2u * 40 * 8 * 2);
  EXPECT_EQ(layer.v.bytes, 2u * 40 * 5 * 2);
}

TEST_F(DumpReaderTest, CallsBackOnceInThisProcessWhileItOpens) {
  int calls = 0;
  const auto meanwhile = [&calls] { ++calls; };
  EXPECT_THROW(DumpReader(path_, 0, meanwhile), InputError);
  EXPECT_EQ(calls, 0) << "no such file";
  write_small_dump(path_);
  EXPECT_EQ(DumpReader(path_, 0, meanwhile).info().samples.size(), small_samples().size());
  EXPECT_EQ(calls, 1);
  EXPECT_THROW(DumpReader(path_, 0, [] { throw std::runtime_error("of the caller"); }), std::runtime_error);
}

TEST_F(DumpReaderTest, ReadsContiguousValues) {
  write_small_dump(path_);
  const DumpReader reader(path_);
  expect_all_values(reader);
  AttentionLayer layer;
  EXPECT_TRUE(reader.read_layer(0, 2, layer));
  EXPECT_EQ(layer.layer, 2);
  EXPECT_EQ(layer.shape, small_header().shape);
  EXPECT_EQ(layer.softmax_scale, 0.3);
  EXPECT_EQ(layer.logit_softcap, 50);
  EXPECT_EQ(layer.sliding_window, 16);
  EXPECT_EQ(layer.num_tokens, 40);
  EXPECT_THAT(layer.query_positions, ElementsAre(0, 17, 39));
  EXPECT_EQ(layer.spans.size(), 2u);
  EXPECT_EQ(reader.read_array<std::int32_t>(0, "tokens"), small_tokens(small_samples()[0]));
  EXPECT_EQ(reader.read_array<float>(0, 0, "attention_mass"), small_mass(small_samples()[0]));
  EXPECT_TRUE(reader.read_array<std::int32_t>(1, "tokens").empty());
  EXPECT_TRUE(reader.read_array<float>(0, 2, "attention_mass").empty());
  for (const int number : {2, 5})
    EXPECT_EQ(reader.read_array<float>(0, number, "output"), small_output(small_samples()[0], number));
  EXPECT_EQ(reader.read_array<float>(0, 5, "output_lse"), small_lse(small_samples()[0]));
  EXPECT_TRUE(reader.read_array<float>(0, 0, "output").empty());
  EXPECT_THROW(reader.read_array<float>(0, "tokens"), std::logic_error) << "another type";
}

TEST_F(DumpReaderTest, ALayerThatIsReadAgainHasNothingOfTheOneBefore) {
  write_small_dump(path_);
  AttentionLayer layer;
  layer.output_gradient = {1, 2};
  layer.estimates.emplace_back(layer.q.memory()).values.resize(8);
  EXPECT_TRUE(DumpReader(path_).read_layer(0, small_samples()[0].layers.front(), layer));
  EXPECT_TRUE(layer.output_gradient.empty());
  EXPECT_EQ(layer.estimates[0].values.size(), 0u);
}

TEST_F(DumpReaderTest, ReadsGzipValues) {
  write_small_dump(path_, {.gzip_level = 6}, 7);
  const DumpReader reader(path_);
  EXPECT_EQ(reader.layer_info(0, 0).storage(), Storage::gzip);
  EXPECT_LT(reader.layer_info(0, 0).k.file_offset, 0);
  expect_all_values(reader);
}

TEST_F(DumpReaderTest, ReadsChunksThatCutEveryAxis) {
  write_small_dump(path_);
  restore_as(path_, [](hid_t properties, const std::vector<hsize_t>& extents) {
    const hsize_t chunk[]{2, std::min<hsize_t>(7, extents[1]), 3};
    done(H5Pset_chunk(properties, 3, extents[0] >= 2 ? chunk : std::vector<hsize_t>{1, 4, 3}.data()));
    done(H5Pset_fletcher32(properties));
  });
  const DumpReader reader(path_);
  EXPECT_EQ(reader.layer_info(0, 0).storage(), Storage::chunked);
  expect_all_values(reader);
}

TEST_F(DumpReaderTest, ReadsCompactValues) {
  write_small_dump(path_);
  restore_as(path_,
             [](hid_t properties, const std::vector<hsize_t>&) { done(H5Pset_layout(properties, H5D_COMPACT)); });
  const DumpReader reader(path_);
  EXPECT_EQ(reader.layer_info(0, 0).storage(), Storage::compact);
  expect_all_values(reader);
}

TEST_F(DumpReaderTest, FindsValuesBehindAUserBlock) {
  write_small_dump(path_);
  folder_.write("dump.h5", std::string(1024, 'x') + bytes_of_file(path_));
  expect_all_values(DumpReader(path_));
}

TEST_F(DumpReaderTest, KeepsBuffers) {
  write_small_dump(path_);
  const DumpReader reader(path_);
  AttentionLayer layer;
  EXPECT_TRUE(reader.read_layer(0, 5, layer));
  const std::byte* k = layer.k.data();
  EXPECT_TRUE(reader.read_layer(1, 3, layer));
  EXPECT_EQ(layer.k.data(), k);
  EXPECT_EQ(layer.k.size(), 2u * 23 * 8 * 2);
}

TEST_F(DumpReaderTest, FillsInWhatIsOptional) {
  write_small_dump(path_);
  {
    const Edit edit(path_);
    for (const char* name :
         {"value_dim", "softmax_scale", "logit_softcap", "rope", "engine", "kv_cache", "source", "created"}) {
      edit.remove_attribute("/", name);
    }
    for (const SampleInfo& sample : small_samples()) {
      for (const int layer : sample.layers) {
        edit.zeros("/samples/" + sample.name + "/layers/" + std::to_string(layer) + "/v",
                   small_type(layer) == ElementType::float32   ? H5T_IEEE_F32LE
                   : small_type(layer) == ElementType::float16 ? float_type(5, 10, 15).get()
                                                               : float_type(8, 7, 127).get(),
                   {2, static_cast<hsize_t>(sample.num_tokens), 8});
      }
    }
    for (const char* name : {"spans", "span_labels", "layers/2/output", "layers/5/output", "layers/5/output_lse"})
      edit.remove(std::string("/samples/first/") + name);
  }
  const DumpReader reader(path_);
  EXPECT_EQ(reader.info().shape.value_dim, 8);
  EXPECT_DOUBLE_EQ(reader.info().softmax_scale, 1 / std::sqrt(8.0));
  EXPECT_EQ(reader.info().logit_softcap, 0);
  EXPECT_EQ(reader.info().rope, "");
  EXPECT_EQ(reader.info().engine + reader.info().kv_cache, "");
  EXPECT_TRUE(reader.info().samples[0].spans.empty());
}

TEST_F(DumpReaderTest, AcceptsTheOtherSpellings) {
  write_small_dump(path_);
  const SampleInfo sample = small_samples()[1];
  {
    const Edit edit(path_);
    const std::string group = "/samples/second/layers/3/";
    edit.dataset(group + "q", H5T_STD_U16LE, {1, 6, 8}, small_q(sample, 3, ElementType::bfloat16).data());
    edit.dataset(group + "v", H5T_STD_U16LE, {2, 23, 5}, small_v(sample, 3, ElementType::bfloat16).data());
    edit.text(group + "q", "dtype", "bfloat16");
    edit.text(group + "v", "dtype", "bfloat16");
    edit.text("/", "model", "fixed length");
    const std::uint8_t heads = 6;
    edit.attribute("/", "num_query_heads", H5T_STD_U8BE, &heads);
    edit.number("/samples/second", "num_tokens", 23);
    const std::int32_t softcap = 30;
    edit.attribute("/", "logit_softcap", H5T_NATIVE_INT32, &softcap);
    const std::int16_t position = 22;
    edit.dataset("/samples/second/query_positions", H5T_NATIVE_INT16, {1}, &position);
  }
  const DumpReader reader(path_);
  EXPECT_EQ(reader.info().model, "fixed length");
  EXPECT_EQ(reader.info().logit_softcap, 30);
  EXPECT_EQ(reader.info().samples[1].num_tokens, 23);
  expect_all_values(reader);
}

TEST_F(DumpReaderTest, FollowsSoftLinksWithinTheFile) {
  write_small_dump(path_);
  {
    const Edit edit(path_);
    done(H5Lmove(edit.file(), "/samples/first/layers/2", edit.file(), "/elsewhere", H5P_DEFAULT, H5P_DEFAULT));
    edit.soft_link("/elsewhere", "/samples/first/layers/2");
  }
  expect_all_values(DumpReader(path_));
}

TEST_F(DumpReaderTest, IgnoresWhatItDoesNotKnow) {
  write_small_dump(path_);
  {
    const Edit edit(path_);
    edit.text("/", "note", "hello");
    edit.group("/extra");
    edit.zeros("/samples/statistics", H5T_NATIVE_DOUBLE, {3});
    edit.group("/samples/first/more");
    edit.integer("/samples/first/layers/2", "head_group", 7);
    edit.zeros("/samples/first/layers/2/scores", H5T_NATIVE_DOUBLE, {2, 2});
    edit.zeros("/samples/first/layers/index", H5T_NATIVE_INT, {3});
  }
  const DumpReader reader(path_);
  EXPECT_EQ(reader.info().samples.size(), 2u);
  expect_all_values(reader);
}

TEST_F(DumpReaderTest, KnowsOnlyTheLayersOfTheDump) {
  write_small_dump(path_);
  const DumpReader reader(path_);
  EXPECT_THROW(reader.layer_info(0, 1), std::out_of_range);
  EXPECT_THROW(reader.layer_info(2, 0), std::out_of_range);
}

TEST_F(DumpReaderTest, OpensALargeDumpWithoutReadingIt) {
  constexpr std::int64_t kTokens = std::int64_t{1} << 20;
  constexpr int kLayers = 32;
  {
    DumpInfo header = small_header();
    header.num_layers = kLayers;
    header.shape = {.num_query_heads = 8, .num_kv_heads = 8, .head_dim = 64, .value_dim = 64};
    SampleInfo sample = small_samples()[1];
    sample.num_tokens = kTokens;
    const Edit edit([&] {  // the writer requires all values, so one small layer is written first
      DumpWriter writer(path_, header);
      const std::vector<std::byte> zeros(8 * 23 * 64 * 2);
      writer.begin_sample(small_samples()[1]);
      writer.begin_layer(0, {.element_type = ElementType::float16});
      writer.write_q(0, 1, zeros.data());
      for (int head = 0; head < 8; ++head) {
        writer.write_k(head, 0, 23, zeros.data());
        writer.write_v(head, 0, 23, zeros.data());
      }
      writer.finish();
      return path_;
    }());
    edit.integer("/samples/second", "num_tokens", kTokens);
    const Handle half = float_type(5, 10, 15);
    const Handle sparse = own(H5Pcreate(H5P_DATASET_CREATE));
    done(H5Pset_alloc_time(sparse.get(), H5D_ALLOC_TIME_EARLY));
    done(H5Pset_fill_time(sparse.get(), H5D_FILL_TIME_NEVER));
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string group = "/samples/second/layers/" + std::to_string(layer);
      if (layer > 0) edit.group(group);
      edit.zeros(group + "/q", half.get(), {1, 8, 64});
      edit.dataset(group + "/k", half.get(), {8, kTokens, 64}, nullptr, sparse.get());
      edit.dataset(group + "/v", half.get(), {8, kTokens, 64}, nullptr, sparse.get());
    }
  }
  ASSERT_GT(std::filesystem::file_size(path_), std::uintmax_t{60} << 30);
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  const auto start = std::chrono::steady_clock::now();
  const DumpReader reader(path_);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_EQ(reader.info().samples[0].layers.size(), 32u);
  EXPECT_EQ(reader.layer_info(0, 31).k.bytes, std::size_t{1} << 30);
  EXPECT_LT(seconds.count(), 10) << "milliseconds when the machine has nothing else to do";
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024) << "KiB";
}

TEST_F(DumpReaderTest, ReadsLayersInManyThreads) {
  write_small_dump(path_, {.gzip_level = 1});
  const DumpReader reader(path_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { expect_all_values(reader); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DumpReaderTest, SaysWhenDecodingFails) {
  write_small_dump(path_, {.gzip_level = 6});
  std::string bytes = bytes_of_file(path_);
  // Overwrites the start of each deflate stream (78 9c at level 6) with zeros. The lengths in the chunk index stay
  // right.
  std::size_t streams = 0;
  for (std::size_t at = bytes.find("\x78\x9c"); at != std::string::npos; at = bytes.find("\x78\x9c", at + 1)) {
    bytes.replace(at, 8, 8, '\0');
    ++streams;
  }
  ASSERT_GE(streams, 12u);
  folder_.write("dump.h5", bytes);
  const DumpReader reader(path_);
  AttentionLayer layer;
  EXPECT_EQ(
      message_of<InputError>([&] { std::ignore = reader.read_layer(0, 0, layer); }),
      path_ + ": /samples/first/layers/0/q: its chunk at [0, 0, 0] is damaged: its gzip stream cannot be inflated");
}

// As h5py writes them after a data set of odd length: an element is cut by the border of the file's blocks.
TEST_F(DumpReaderTest, FindsBadValuesOfTensorsAtOddOffsets) {
  write_dump_at_odd_offset(path_);
  const auto offset = static_cast<std::uint64_t>(DumpReader(path_).layer_info(0, 0).k.file_offset);
  ASSERT_EQ(offset % 2, 1u);
  const std::string bytes = bytes_of_file(path_);
  AttentionLayer layer;
  const std::uint64_t cut = (kFileBlock - offset % kFileBlock) / 2;  // the element at the first border
  for (const std::uint64_t i : {std::uint64_t{0}, cut - 1, cut, cut + 1, std::uint64_t{kOddTokens * 8 - 1}})
    for (const auto& [value, finite] : {std::pair("\x7c\x00", true), {"\x00\x7c", false}}) {  // 2^-18.4, infinity
      std::string changed = bytes;
      changed.replace(offset + 2 * i, 2, value, 2);
      folder_.write("dump.h5", changed);
      EXPECT_EQ(DumpReader(path_).read_layer(0, 0, layer), finite) << "element " << i;
      layer.store = std::make_shared<MemoryStore>();
      EXPECT_EQ(read_to_store(DumpReader(path_), 0, 0, layer), finite) << "element " << i;
      EXPECT_EQ(layer.store->arrival.wait(1, std::chrono::milliseconds(0)).heads, finite ? 1 : 0);
    }
}

}  // namespace
}  // namespace attest::test
