// DumpWriter: what it writes, what it refuses, and full disks.
#include "dumps/format/dump_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DumpWriterTest : public ::testing::Test {
 protected:
  ScratchFolder folder_;
  std::string path_ = folder_.file("dump.h5");
};

TEST_F(DumpWriterTest, SpellsTheElementTypesAsTheFormatSays) {
  write_small_dump(path_);
  const hdf5::Lock lock;
  const Handle file = own(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const auto type_of = [&](const char* name) {
    const Handle data = own(H5Dopen2(file.get(), name, H5P_DEFAULT));
    return own(H5Dget_type(data.get()));
  };
  EXPECT_GT(H5Tequal(type_of("/samples/first/layers/5/k").get(), H5T_IEEE_F32LE), 0);
  for (const auto& [name, exponent_bits, bias] :
       {std::tuple{"/samples/first/layers/0/k", 8u, 127u}, {"/samples/first/layers/2/k", 5u, 15u}}) {
    const Handle type = type_of(name);
    std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
    H5Tget_fields(type.get(), &sign, &exponent, &exponent_size, &mantissa, &mantissa_size);
    EXPECT_EQ(H5Tget_class(type.get()), H5T_FLOAT);
    EXPECT_EQ(H5Tget_order(type.get()), H5T_ORDER_LE);
    EXPECT_EQ(H5Tget_size(type.get()), 2u);
    EXPECT_EQ(H5Tget_precision(type.get()), 16u);
    EXPECT_EQ(sign, 15u);
    EXPECT_EQ(exponent_size, exponent_bits);
    EXPECT_EQ(exponent, 15 - exponent_bits);
    EXPECT_EQ(mantissa, 0u);
    EXPECT_EQ(mantissa_size, 15 - exponent_bits);
    EXPECT_EQ(H5Tget_ebias(type.get()), bias);
    EXPECT_EQ(H5Tget_norm(type.get()), H5T_NORM_IMPLIED);
  }
}

TEST_F(DumpWriterTest, IsContiguousUnlessAskedForGzip) {
  write_small_dump(path_);
  EXPECT_EQ(DumpReader(path_).layer_info(0, 0).storage(), Storage::contiguous);
  write_small_dump(path_, {.overwrite = true, .gzip_level = 4});
  EXPECT_EQ(DumpReader(path_).layer_info(0, 0).storage(), Storage::gzip);
}

TEST_F(DumpWriterTest, TakesSlabsOfAnySize) {
  write_small_dump(path_);
  const std::string sliced = folder_.file("sliced.h5");
  write_small_dump(sliced, {}, 3);
  EXPECT_TRUE(bytes_of_file(path_) == bytes_of_file(sliced));
}

TEST_F(DumpWriterTest, RefusesAnExistingFileUntouched) {
  folder_.write("dump.h5", "precious");
  EXPECT_EQ(message_of<OutputError>([&] { write_small_dump(path_); }),
            path_ + ": exists already, expected a new file (or --force)");
  EXPECT_EQ(bytes_of_file(path_), "precious");
}

TEST_F(DumpWriterTest, RefusesAFileThatAppearedMeanwhile) {
  const SampleInfo sample = small_samples()[1];
  DumpWriter writer(path_, small_header());
  writer.begin_sample(sample);
  writer.begin_layer(3, {.element_type = ElementType::bfloat16});
  writer.write_q(0, 1, small_q(sample, 3, ElementType::bfloat16).data());
  for (int head = 0; head < 2; ++head) {
    writer.write_k(head, 0, 23, small_k(sample, 3, ElementType::bfloat16).data());
    writer.write_v(head, 0, 23, small_v(sample, 3, ElementType::bfloat16).data());
  }
  folder_.write("dump.h5", "precious");
  EXPECT_THROW(writer.finish(), OutputError);
  EXPECT_EQ(bytes_of_file(path_), "precious");
}

TEST_F(DumpWriterTest, ReplacesWhenAskedTo) {
  folder_.write("dump.h5", "old");
  write_small_dump(path_, {.overwrite = true});
  EXPECT_EQ(DumpReader(path_).info().samples.size(), 2u);
}

TEST_F(DumpWriterTest, LeavesNothingWithoutFinish) {
  {
    DumpWriter writer(path_, small_header());
    writer.begin_sample(small_samples()[0]);
    writer.begin_layer(0, {.element_type = ElementType::float16});
    EXPECT_FALSE(folder_.empty());
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
  EXPECT_TRUE(folder_.empty());
}

TEST_F(DumpWriterTest, NamesTheFolderThatIsMissing) {
  const std::string path = folder_.file("no/such/dump.h5");
  EXPECT_EQ(message_of<OutputError>([&] { DumpWriter(path, small_header()); }),
            path + ": cannot be written (No such file or directory)");
}

/// For a process of its own: a limit on file sizes simulates a full disk.
int write_with_limit(const std::string& path, rlim_t bytes, int gzip_level) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of<OutputError>([&] { write_small_dump(path, {.gzip_level = gzip_level}); });
  std::fputs(message.c_str(), stderr);
  return message.empty() ? 0 : 5;
}

TEST_F(DumpWriterTest, SaysThatTheDiskIsFullAndCleansUp) {
  for (const rlim_t bytes : {500, 5000, 20000}) {
    for (const int gzip_level : {0, 4}) {
      EXPECT_EXIT(std::exit(write_with_limit(path_, bytes, gzip_level)), ::testing::ExitedWithCode(5),
                  "cannot be written \\(File too large\\)");
      EXPECT_TRUE(folder_.empty()) << bytes;
    }
  }
}

TEST_F(DumpWriterTest, RefusesHeadersThatBreakTheFormat) {
  const auto message = [&](auto change) {
    DumpInfo header = small_header();
    change(header);
    return message_of<UsageError>([&] { DumpWriter(path_, header); });
  };
  EXPECT_EQ(message([](DumpInfo&) {}), "");
  const std::string count = " is 0, expected an integer from 1 to 2147483647";
  EXPECT_EQ(message([](DumpInfo& h) { h.shape.num_kv_heads = 4; }),
            path_ + ": /: attribute 'num_kv_heads' is 4, expected a divisor of 'num_query_heads', which is 6");
  EXPECT_EQ(message([](DumpInfo& h) { h.shape.head_dim = 0; }), path_ + ": /: attribute 'head_dim'" + count);
  EXPECT_EQ(message([](DumpInfo& h) { h.num_layers = 0; }), path_ + ": /: attribute 'num_layers'" + count);
  EXPECT_THAT(message([](DumpInfo& h) { h.softmax_scale = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("'softmax_scale' is nan, expected a number that float32 holds"));
  EXPECT_THAT(message([](DumpInfo& h) { h.logit_softcap = std::numeric_limits<double>::infinity(); }),
              HasSubstr("'logit_softcap' is inf, expected a number that float32 holds"));
  EXPECT_TRUE(folder_.empty());
}

TEST_F(DumpWriterTest, RefusesSamplesThatBreakTheFormat) {
  const auto message = [&](auto change) {
    SampleInfo sample = small_samples()[0];
    change(sample);
    DumpWriter writer(path_, small_header());
    return message_of<UsageError>([&] { writer.begin_sample(sample); });
  };
  const std::string object = path_ + ": /samples/first";
  EXPECT_EQ(message([](SampleInfo&) {}), "");
  EXPECT_THAT(message([](SampleInfo& s) { s.name = "a/b"; }), HasSubstr("sample 'a/b': the name"));
  EXPECT_EQ(message([](SampleInfo& s) { s.query_positions = {}; }),
            object + "/query_positions: is empty, expected at least one position");
  EXPECT_EQ(message([](SampleInfo& s) {
              s.query_positions = {3, 3};
            }),
            object + "/query_positions: entry 1 is 3 after 3, expected strictly ascending positions");
  for (const std::int64_t position : {-1, 40})
    EXPECT_THAT(message([&](SampleInfo& s) { s.query_positions = {position}; }), HasSubstr("expected 0 to 39"));
  EXPECT_THAT(message([](SampleInfo& s) { s.spans[1] = {9, 9}; }), HasSubstr("/spans: span 1 is [9, 9)"));
  EXPECT_THAT(message([](SampleInfo& s) { s.spans[1] = {9, 41}; }), HasSubstr("/spans: span 1 is [9, 41)"));
  EXPECT_EQ(message([](SampleInfo& s) { s.span_labels.pop_back(); }),
            object + "/span_labels: has 1 labels, expected one for each of 2 spans");
  EXPECT_EQ(message([](SampleInfo& s) { s.prompt_length = 41; }),
            object + ": attribute 'prompt_length' is 41, expected an integer from 0 to 40");
}

TEST_F(DumpWriterTest, RefusesArraysThatBreakTheFormat) {
  DumpWriter writer(path_, small_header());
  writer.begin_sample(small_samples()[0]);
  const std::vector<std::int32_t> ids(39);
  EXPECT_EQ(message_of<UsageError>([&] { writer.write_array<std::int32_t>("tokens", ids); }),
            path_ + ": /samples/first/tokens: has 39 values, expected 40 (num_tokens)");
  EXPECT_THROW(writer.write_array<float>("tokens", std::vector<float>(40)), std::logic_error) << "another type";
  EXPECT_THROW(writer.write_array<std::int32_t>("ids", ids), std::logic_error);
  writer.begin_layer(0, {.element_type = ElementType::float32});
  EXPECT_EQ(
      message_of<UsageError>([&] { writer.write_array<float>("attention_mass", std::vector<float>(40)); }),
      path_ + ": /samples/first/layers/0/attention_mass: has 40 values, expected 240 (num_query_heads, num_tokens)");
  EXPECT_EQ(message_of<UsageError>([&] { writer.write_array<float>("output", std::vector<float>(40)); }),
            path_ +
                ": /samples/first/layers/0/output: has 40 values, expected 90 (query positions, num_query_heads, "
                "value_dim)");
  EXPECT_THROW(writer.write_array<float>("output_lse", std::vector<float>(18), ElementType::float16), std::logic_error);
}

TEST_F(DumpWriterTest, LearnedSinksOfALayerAreReadBack) {
  const std::vector<float> sinks{0.25f, -3, 1e30f, 0, -700, 2};
  const std::vector<std::byte> values(40 * 6 * 8 * 4);
  SampleInfo sample = small_samples()[0];
  sample.layers = {0, 2};
  DumpWriter writer(path_, small_header());
  writer.begin_sample(sample);
  for (const int layer : sample.layers) {
    const auto message = [&](std::vector<float> wrong) {
      return message_of<UsageError>([&] { writer.begin_layer(layer, {.sinks = std::move(wrong)}); });
    };
    EXPECT_THAT(message(std::vector<float>(5)), HasSubstr("/sinks: has 5 values, expected 6 (num_query_heads)"));
    EXPECT_THAT(message(std::vector<float>(6, std::numeric_limits<float>::quiet_NaN())),
                HasSubstr("/sinks: entry 0 is nan, expected a finite logit"));
    writer.begin_layer(layer, {.sinks = layer == 0 ? std::vector<float>() : sinks});
    writer.write_q(0, 3, values.data());
    for (int head = 0; head < 2; ++head) {
      writer.write_k(head, 0, 40, values.data());
      writer.write_v(head, 0, 40, values.data());
    }
  }
  writer.finish();
  const DumpReader reader(path_);
  AttentionLayer layer;
  ASSERT_TRUE(reader.read_layer(0, 2, layer));
  EXPECT_EQ(layer.sinks, sinks);
  ASSERT_TRUE(reader.read_layer(0, 0, layer));
  EXPECT_THAT(layer.sinks, ::testing::IsEmpty()) << "not those of the layer read before";
}

TEST_F(DumpWriterTest, GradientsOfALayerAreReadBack) {
  std::vector<float> gradient(3 * 6), output_gradient(2 * 3 * 6 * 5);
  std::iota(output_gradient.begin(), output_gradient.end(), -7.25f);
  std::iota(gradient.begin(), gradient.end(), 0.0f);
  const std::vector<std::byte> values(40 * 6 * 8 * 4);
  SampleInfo sample = small_samples()[0];
  sample.layers = {0};
  sample.margin = {-1, 0, 2.5};
  DumpWriter writer(path_, small_header());
  writer.begin_sample(sample);
  writer.write_array<std::int32_t>("answer_token", std::vector<std::int32_t>{7, 8, 9});
  const auto message = [&](std::vector<float> wrong) {
    return message_of<UsageError>([&] { writer.begin_layer(0, {.head_gradient = std::move(wrong)}); });
  };
  EXPECT_THAT(message(std::vector<float>(6)),
              HasSubstr("/head_gradient: has 6 values, expected 18 (query positions, num_query_heads)"));
  EXPECT_THAT(message(std::vector<float>(18, -1)),
              HasSubstr("/head_gradient: entry 0 is -1, expected a finite number, 0 or above"));
  writer.begin_layer(0, {.head_gradient = gradient});
  const auto write_gradient = [&](std::size_t count, std::vector<double> scales, ElementType type) {
    writer.write_array<float>("output_gradient", std::span(output_gradient).first(count), type, scales);
  };
  const auto gradient_message = [&](std::size_t count, std::vector<double> scales) {
    return message_of<UsageError>([&] { write_gradient(count, std::move(scales), ElementType::float16); });
  };
  EXPECT_THAT(gradient_message(90, {}),
              HasSubstr("/output_gradient: is empty, expected the gradients of at least one"));
  EXPECT_THAT(gradient_message(180, {0.5, 2}),
              HasSubstr("entry 1 of attribute 'scales' is 2, expected numbers from 0"));
  EXPECT_THAT(gradient_message(90, {0.5, 1}), HasSubstr("has 90 values, expected 180 (scales, query positions, "));
  EXPECT_THROW(write_gradient(180, {0.5, 1}, ElementType::bfloat16), std::logic_error);
  EXPECT_THROW(writer.write_array<float>("output", std::vector<float>(90), ElementType::float16, std::vector{1.0}),
               std::logic_error);
  write_gradient(180, {0.5, 1}, ElementType::float16);
  writer.write_q(0, 3, values.data());
  for (int head = 0; head < 2; ++head) {
    writer.write_k(head, 0, 40, values.data());
    writer.write_v(head, 0, 40, values.data());
  }
  writer.finish();
  const DumpReader reader(path_);
  AttentionLayer layer;
  ASSERT_TRUE(reader.read_layer(0, 0, layer));
  EXPECT_EQ(layer.head_gradient, gradient);
  EXPECT_EQ(reader.read_array<float>(0, 0, "output_gradient"), output_gradient) << "float16 holds these numbers";
  EXPECT_THAT(reader.layer_info(0, 0).gradient_scales, ::testing::ElementsAre(0.5, 1));
  EXPECT_THAT(reader.info().samples[0].margin, ::testing::ElementsAre(-1, 0, 2.5));
  EXPECT_THAT(reader.read_array<std::int32_t>(0, "answer_token"), ::testing::ElementsAre(7, 8, 9));
}

TEST_F(DumpWriterTest, LayersHaveScalesOfTheirOwn) {
  const std::vector<std::byte> values(40 * 6 * 8 * 4);
  SampleInfo sample = small_samples()[0];
  sample.layers = {0, 1};
  const std::vector<std::vector<double>> scales{{0.5, 1}, {0, 0.25, 1}};
  std::vector<float> gradient(3 * 3 * 6 * 5);
  std::iota(gradient.begin(), gradient.end(), 0.0f);
  DumpWriter writer(path_, small_header());
  writer.begin_sample(sample);
  for (const int layer : sample.layers) {
    const std::vector<double>& own = scales[static_cast<std::size_t>(layer)];
    writer.begin_layer(layer, {});
    writer.write_array<float>("output_gradient", std::span(gradient).first(own.size() * 90), ElementType::float16, own);
    writer.write_q(0, 3, values.data());
    for (int head = 0; head < 2; ++head) {
      writer.write_k(head, 0, 40, values.data());
      writer.write_v(head, 0, 40, values.data());
    }
  }
  writer.finish();
  const DumpReader reader(path_);
  for (const int layer : sample.layers)
    EXPECT_EQ(reader.layer_info(0, layer).gradient_scales, scales[static_cast<std::size_t>(layer)]);
  EXPECT_EQ(reader.read_array<float>(0, 1, "output_gradient"), gradient);
}

TEST_F(DumpWriterTest, InsistsOnItsOrderOfCalls) {
  const std::vector<std::byte> values(40 * 6 * 8 * 4);
  DumpWriter writer(path_, small_header());
  EXPECT_THROW(writer.begin_layer(0, {.element_type = ElementType::float16}), std::logic_error);
  EXPECT_THROW(writer.finish(), std::logic_error) << "no sample";
  writer.begin_sample(small_samples()[0]);
  EXPECT_THROW(writer.write_q(0, 1, values.data()), std::logic_error);
  EXPECT_THROW(writer.finish(), std::logic_error) << "no layer";
  EXPECT_THROW(writer.begin_layer(6, {.element_type = ElementType::float16}), std::logic_error);
}

TEST_F(DumpWriterTest, InsistsOnCompleteTensors) {
  const std::vector<std::byte> values(40 * 6 * 8 * 4);
  DumpWriter writer(path_, small_header());
  writer.begin_sample(small_samples()[0]);
  writer.begin_layer(0, {.element_type = ElementType::float16});
  writer.write_q(0, 3, values.data());
  EXPECT_THROW(writer.write_k(2, 0, 40, values.data()), std::logic_error);
  EXPECT_THROW(writer.write_k(0, 1, 40, values.data()), std::logic_error);
  writer.write_k(0, 0, 40, values.data());
  writer.write_k(1, 0, 40, values.data());
  writer.write_v(0, 0, 40, values.data());
  writer.write_v(1, 0, 39, values.data());
  EXPECT_THROW(writer.begin_layer(1, {.element_type = ElementType::float16}), std::logic_error);
  EXPECT_THROW(writer.finish(), std::logic_error);
  writer.write_v(1, 39, 1, values.data());
  EXPECT_THROW(writer.begin_layer(0, {.element_type = ElementType::float16}), std::logic_error) << "twice";
}

}  // namespace
}  // namespace attest::test
