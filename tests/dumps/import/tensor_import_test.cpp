// Arrays in memory stand for files: every layout must put every value where the dump's format says.
#include "dumps/import/tensor_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "dumps/base/error.h"
#include "dumps/dump_reader.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class MemorySource final : public TensorSource {
 public:
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) override {
    ASSERT_LE(offset + out.size(), bytes_.at(index).size());
    largest_read = std::max(largest_read, out.size());
    std::memcpy(out.data(), bytes_[index].data() + offset, out.size());
  }

  /// Values are filled by `value(b, h, t, d)` along axes named by `letters`, slowest first (fastest first when
  /// column-major).
  void add(const std::string& name, const std::string& letters, const std::vector<std::int64_t>& shape,
           bool column_major, auto&& value) {
    SourceTensor& tensor = tensors_.emplace_back();
    tensor.file = "memory";
    tensor.name = name;
    tensor.type_name = "F32";
    tensor.element_type = ElementType::float32;
    tensor.shape = shape;
    tensor.column_major = column_major;
    std::vector<float> values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      std::int64_t at[4] = {}, rest = i;  // b, h, t, d
      for (std::size_t step = 0; step < shape.size(); ++step) {
        const std::size_t axis = column_major ? step : shape.size() - 1 - step;
        at[std::string("BHTD").find(letters[axis])] = rest % shape[axis];
        rest /= shape[axis];
      }
      values.push_back(value(at[0], at[1], at[2], at[3]));
    }
    bytes_.emplace_back(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  }
  /// Zeros.
  SourceTensor& add(const std::string& name, const std::vector<std::int64_t>& shape) {
    add(name, std::string("BHTD").substr(4 - shape.size()), shape, false, [](auto...) { return 0.0f; });
    return tensors_.back();
  }

  std::size_t largest_read = 0;

 private:
  std::vector<SourceTensor> tensors_;
  std::vector<std::string> bytes_;
};

/// Another number for every element of every tensor.
auto numbering(int tensor) {
  return [tensor](std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d) {
    return static_cast<float>(tensor * 1'000'000 + b * 100'000 + h * 10'000 + t * 100 + d);
  };
}

void import_to(const std::string& path, TensorSource& source, const ImportOptions& options) {
  write_import(source, plan_import(source, "memory", options), options, path, false);
}

constexpr std::int64_t kB = 2, kN = 3, kHq = 4, kHkv = 2, kT = 7, kD = 5, kDv = 6;

std::vector<std::int64_t> shape_of(const std::string& letters, std::int64_t heads, std::int64_t tokens,
                                   std::int64_t channels) {
  std::vector<std::int64_t> shape;
  for (const char c : letters) shape.push_back(c == 'B' ? kB : c == 'H' ? heads : c == 'T' ? tokens : channels);
  return shape;
}

void expect_values(const AttentionLayer& layer, std::int64_t b, int first_tensor) {
  const auto expect = [&](const LayerBuffer& buffer, std::int64_t rows, std::int64_t columns, std::int64_t channels,
                          auto&& value) {
    ASSERT_EQ(buffer.size(), static_cast<std::size_t>(4 * rows * columns * channels));
    for (std::int64_t i = 0; i < rows * columns * channels; ++i) {
      float found;
      std::memcpy(&found, buffer.data() + 4 * i, 4);
      ASSERT_EQ(found, value(i / channels / columns, i / channels % columns, i % channels)) << i;
    }
  };
  expect(layer.q, kN, kHq, kD, [&](auto n, auto h, auto d) { return numbering(first_tensor)(b, h, n, d); });
  expect(layer.k, kHkv, kT, kD, [&](auto h, auto t, auto d) { return numbering(first_tensor + 1)(b, h, t, d); });
  expect(layer.v, kHkv, kT, kDv, [&](auto h, auto t, auto d) { return numbering(first_tensor + 2)(b, h, t, d); });
}

using LayoutCase = std::tuple<const char*, bool>;
class EveryLayout : public testing::TestWithParam<LayoutCase> {};

TEST_P(EveryLayout, puts_every_value_in_its_place) {
  const auto& [letters, column_major] = GetParam();
  const bool batched = std::string(letters).find('B') != std::string::npos;
  MemorySource source;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "layers." + std::to_string(layer) + ".";
    source.add(name + "q", letters, shape_of(letters, kHq, kN, kD), column_major, numbering(3 * layer));
    source.add(name + "k", letters, shape_of(letters, kHkv, kT, kD), column_major, numbering(3 * layer + 1));
    source.add(name + "v", letters, shape_of(letters, kHkv, kT, kDv), column_major, numbering(3 * layer + 2));
  }
  ImportOptions options;
  options.layout = letters;
  const ScratchFolder folder;
  import_to(folder.file("dump.h5"), source, options);

  const DumpReader reader(folder.file("dump.h5"));
  EXPECT_EQ(reader.info().shape, (AttentionShape{kHq, kHkv, kD, kDv}));
  EXPECT_EQ(reader.info().num_layers, 2);
  ASSERT_EQ(reader.info().samples.size(), batched ? 2u : 1u);
  EXPECT_THAT(reader.info().samples[0].query_positions, ElementsAre(4, 5, 6));
  for (std::size_t sample = 0; sample < reader.info().samples.size(); ++sample)
    for (int number = 0; number < 2; ++number) {
      AttentionLayer layer;
      reader.read_layer(sample, number, layer);
      SCOPED_TRACE(testing::Message() << "sample " << sample << " layer " << number);
      expect_values(layer, static_cast<std::int64_t>(sample), 3 * number);
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout,
                         testing::Combine(testing::Values("HTD", "THD", "HDT", "TDH", "DHT", "DTH", "BHTD", "BTHD",
                                                          "HBTD", "THDB", "BDTH"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_column_major" : "");
                         });

TEST(Import, long_layers_pass_in_slabs) {
  constexpr std::int64_t tokens = 20'000, channels = 128;
  for (const char* letters : {"HTD", "THD"}) {
    MemorySource source;
    const auto value = [](auto, auto h, auto t, auto d) { return static_cast<float>((h * tokens + t) * channels + d); };
    const bool head_first = letters[0] == 'H';
    for (const char* name : {"k", "v"})
      source.add(name, letters, {head_first ? 2 : tokens, head_first ? tokens : 2, channels}, false, value);
    source.add("q", letters, {head_first ? 2 : 1, head_first ? 1 : 2, channels}, false, value);
    ImportOptions options;
    options.layout = letters;
    const ScratchFolder folder;
    import_to(folder.file("dump.h5"), source, options);
    EXPECT_LE(source.largest_read, std::size_t{4} << 20);
    AttentionLayer layer;
    DumpReader(folder.file("dump.h5")).read_layer(0, 0, layer);
    for (std::size_t i = 0; i < 2 * tokens * channels; ++i) {
      float found;
      std::memcpy(&found, layer.v.data() + 4 * i, 4);
      ASSERT_EQ(found, static_cast<float>(i)) << letters;
    }
  }
}

TEST(Import, names_tell_samples_and_layers) {
  MemorySource source;
  for (const char* prefix : {"b/layers/3/", "a/layers/3/", "a/layers/10/"}) {
    source.add(std::string(prefix) + "q", {2, 1, 4});
    source.add(std::string(prefix) + "k", {1, prefix[0] == 'a' ? 5 : 6, 4});
    source.add(std::string(prefix) + "v", {1, prefix[0] == 'a' ? 5 : 6, 3});
  }
  source.add("lm_head.weight", {3, 3});
  const ImportPlan plan = plan_import(source, "memory", {});
  ASSERT_EQ(plan.samples.size(), 2u);
  EXPECT_EQ(plan.samples[0].name, "a");
  ASSERT_EQ(plan.samples[0].layers.size(), 2u);
  EXPECT_EQ(plan.samples[0].layers[1].layer, 10);
  EXPECT_EQ(plan.samples[1].num_tokens, 6);
  EXPECT_EQ(plan.num_layers, 11);
  EXPECT_EQ(plan.bytes, 4 * (3 * 8 + 2 * (20 + 15) + 24 + 18));
}

TEST(Import, usual_names_are_found_without_patterns) {
  for (const char* form : {"@", "layers.0.@", "s.layers.0.@", "layer_0.@", "layer0.@", "layer_0/@", "@_0", "@0", "0.@",
                           "s/@", "model.layers.0.self_attn.@"}) {
    MemorySource source;
    for (const char* role : {"q", "k", "v"}) {
      std::string name = form;
      source.add(name.replace(name.find('@'), 1, role), {1, 2, 4});
    }
    const ImportPlan plan = plan_import(source, "memory", {});
    EXPECT_EQ(plan.samples.size(), 1u) << form;
    EXPECT_EQ(plan.num_layers, 1) << form;
  }
}

TEST(Import, an_axis_that_is_left_out_is_one) {
  MemorySource source;
  source.add("q", {4, 5});  // one query
  source.add("k", {3, 5});  // one KV head
  source.add("v", {3, 2});
  ImportOptions options;
  options.layout = "TD";
  options.q_layout = "HD";
  const ImportPlan plan = plan_import(source, "memory", options);
  EXPECT_EQ(plan.shape, (AttentionShape{4, 1, 5, 2}));
  EXPECT_THAT(plan.samples[0].query_positions, ElementsAre(2));
}

TEST(Import, options_reach_the_dump) {
  MemorySource source;
  for (const char* name : {"q_0", "q_1"}) source.add(name, {2, 2, 4});
  for (const char* name : {"k_0", "v_0", "k_1", "v_1"}) source.add(name, {1, 9, 4});
  ImportOptions options;
  options.positions = {3, 7};
  options.sample = "one", options.task = "niah", options.model = "m", options.rope = "{}";
  options.num_layers = 5;
  options.softmax_scale = 0.25, options.logit_softcap = 30, options.sliding_window = 4, options.window_layers = {1};
  options.spans = {{1, 3}};
  const ScratchFolder folder;
  import_to(folder.file("dump.h5"), source, options);
  const DumpReader reader(folder.file("dump.h5"));
  const DumpInfo& info = reader.info();
  EXPECT_EQ(info.model, "m");
  EXPECT_EQ(info.rope, "{}");
  EXPECT_EQ(info.num_layers, 5);
  EXPECT_EQ(info.softmax_scale, 0.25);
  EXPECT_EQ(info.logit_softcap, 30);
  EXPECT_EQ(info.samples[0].name, "one");
  EXPECT_EQ(info.samples[0].task, "niah");
  EXPECT_THAT(info.samples[0].query_positions, ElementsAre(3, 7));
  EXPECT_THAT(info.samples[0].spans, ElementsAre(TokenSpan{1, 3}));
  EXPECT_EQ(reader.layer_info(0, 0).sliding_window, 0);
  EXPECT_EQ(reader.layer_info(0, 1).sliding_window, 4);
}

TEST(Import, bits_of_16_are_bfloat16_only_when_asked) {
  MemorySource source;
  for (const char* name : {"q", "k", "v"}) {
    SourceTensor& tensor = source.add(name, {1, 2, 4});
    tensor.element_type.reset();
    tensor.type_name = "U16";
    tensor.bits_of_16 = true;
  }
  EXPECT_EQ(message_of<InputError>([&] { plan_import(source, "memory", {}); }),
            "memory: tensor 'q': expected float16, bfloat16 or float32, found 'U16' (--bfloat16-bits, if these are the "
            "bits of bfloat16)");
  ImportOptions options;
  options.bfloat16_bits = true;
  EXPECT_EQ(plan_import(source, "memory", options).samples[0].layers[0].element_type, ElementType::bfloat16);
}

/// What plan_import says about q, k, v of these shapes.
std::string complaint(std::vector<std::int64_t> q, std::vector<std::int64_t> k, std::vector<std::int64_t> v,
                      const ImportOptions& options = {}) {
  MemorySource source;
  source.add("q", q);
  source.add("k", k);
  source.add("v", v);
  return message_of<Error>([&] { plan_import(source, "memory", options); });
}

TEST(Import, shapes_that_make_no_dump_are_refused_in_one_sentence) {
  EXPECT_EQ(
      complaint({3, 1, 4}, {2, 9, 4}, {2, 9, 4}),
      "memory: tensor 'q': expected a multiple of the 2 heads of k, found 3 heads in shape [3, 1, 4] (layout HTD)");
  EXPECT_EQ(complaint({2, 1, 4}, {2, 9, 5}, {2, 9, 4}),
            "memory: tensor 'k': expected 4 channels as in q, found 5 in shape [2, 9, 5] (layout HTD)");
  EXPECT_EQ(complaint({2, 1, 4}, {2, 9, 4}, {1, 9, 4}),
            "memory: tensor 'v': expected 2 KV heads as in k, found 1 in shape [1, 9, 4] (layout HTD)");
  EXPECT_EQ(complaint({2, 1, 4}, {2, 9, 4}, {2, 8, 4}),
            "memory: tensor 'v': expected 9 tokens as in k, found 8 in shape [2, 8, 4] (layout HTD)");
  EXPECT_EQ(
      complaint({2, 10, 4}, {2, 9, 4}, {2, 9, 4}),
      "memory: tensor 'q': expected at most 9 queries, the tokens of k, found 10 in shape [2, 10, 4] (layout HTD)");
  EXPECT_EQ(complaint({2, 1, 4}, {2, 0, 4}, {2, 9, 4}), "memory: tensor 'k': expected values, found shape [2, 0, 4]");
  EXPECT_EQ(complaint({2, 4}, {2, 9, 4}, {2, 9, 4}),
            "memory: tensor 'q': expected 3 axes (layout HTD), found shape [2, 4]");
  EXPECT_EQ(complaint({3, 2, 1, 4}, {2, 2, 9, 4}, {2, 2, 9, 4}),
            "memory: tensor 'k': expected 3 samples as in q, found 2 in shape [2, 2, 9, 4] (layout HTD)");
}

TEST(Import, positions_and_spans_must_fit_the_tokens) {
  ImportOptions options;
  options.positions = {5};
  EXPECT_EQ(complaint({2, 2, 4}, {2, 9, 4}, {2, 9, 4}, options),
            "memory: tensor 'q': expected 1 queries, as many as --positions has, found 2");
  options.positions = {5, 9};
  EXPECT_EQ(complaint({2, 2, 4}, {2, 9, 4}, {2, 9, 4}, options),
            "memory: tensor 'k': expected tokens beyond position 9, found 9");
  options.positions = {5, 5};
  EXPECT_EQ(complaint({2, 2, 4}, {2, 9, 4}, {2, 9, 4}, options),
            "positions: expected ascending numbers from 0, found 5");
  options.positions = {-1, 5};
  EXPECT_EQ(complaint({2, 2, 4}, {2, 9, 4}, {2, 9, 4}, options),
            "positions: expected ascending numbers from 0, found -1");
  options = {};
  options.spans = {{3, 10}};
  EXPECT_EQ(complaint({2, 2, 4}, {2, 9, 4}, {2, 9, 4}, options),
            "spans: expected BEGIN:END within the 9 tokens of sample 'sample', found 3:10");
  options = {};
  options.layout = "HTX";
  EXPECT_THAT(complaint({2, 2, 4}, {2, 9, 4}, {2, 9, 4}, options),
              HasSubstr("layout 'HTX': expected each of the letters"));
}

TEST(Import, layers_must_be_whole_and_alike) {
  MemorySource source;
  for (const char* name : {"layers.0.q", "layers.0.k", "layers.0.v", "layers.1.q", "layers.1.k"})
    source.add(name, {1, 2, 4});
  const auto refusal = [&](const ImportOptions& options = {}) {
    return message_of<Error>([&] { plan_import(source, "memory", options); });
  };
  EXPECT_EQ(refusal(), "memory: layer 1: expected q, k and v, found no array that fits 'layers.{l}.v'");
  source.add("layers.1.v", {1, 2, 4}).element_type = ElementType::float16;
  EXPECT_EQ(refusal(), "memory: tensor 'layers.1.v': expected float32 as in 'layers.1.q', found float16");
  ImportOptions options;
  options.q_names = "layers.{l}.q";
  EXPECT_EQ(refusal(options), "name patterns: expected all of --q, --k and --v, or none");
  options.k_names = options.v_names = "x.{l}";
  EXPECT_EQ(refusal(options),
            "memory: expected arrays named like 'layers.{l}.q', 'x.{l}' and 'x.{l}', found 'layers.0.q', "
            "'layers.0.k', 'layers.0.v', 'layers.1.q' and 2 more");
  MemorySource far;
  for (const char* name : {"layers.2147483647.q", "layers.2147483647.k", "layers.2147483647.v"})
    far.add(name, {1, 2, 4});
  EXPECT_EQ(message_of<InputError>([&] { plan_import(far, "memory", {}); }),
            "memory: tensor 'layers.2147483647.q': expected a layer below 100000, found 2147483647");
  MemorySource twice;
  for (const char* name : {"layers.1.q", "layers.01.q", "layers.1.k", "layers.1.v"}) twice.add(name, {1, 2, 4});
  EXPECT_EQ(message_of<InputError>([&] { plan_import(twice, "memory", {}); }),
            "memory: expected one q of layer 1, found 'layers.1.q' and 'layers.01.q'");
}

}  // namespace
}  // namespace attest
