// Every rejection of the format (dumps/README.md) that concerns attributes, shapes, types and names. Each test makes
// the malformed file and checks the message. bad_dump_storage_test.cpp has storage and links.
#include "tests/dumps/format/bad_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "tests/message_of.h"

namespace attest::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The file as a whole.

TEST_F(BadDumpTest, Missing) { EXPECT_EQ(error(), "cannot be opened (No such file or directory)"); }

TEST_F(BadDumpTest, AFolder) {
  std::filesystem::create_directory(path_);
  EXPECT_THAT(error(), HasSubstr("expected a file"));
}

TEST_F(BadDumpTest, APipeDoesNotBlock) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("expected a file"));
}

TEST_F(BadDumpTest, Empty) {
  folder_.write("dump.h5", "");
  EXPECT_EQ(error(), "is not an HDF5 file, it is empty");
}

TEST_F(BadDumpTest, NotHdf5) {
  folder_.write("dump.h5", "PK\x03\x04 some other format, and long enough to hold a signature");
  EXPECT_EQ(error(), "is not an HDF5 file, it has no HDF5 signature");
}

TEST_F(BadDumpTest, Truncated) {
  write_small_dump(path_);
  const auto size = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, size - 1);
  EXPECT_THAT(error(), StartsWith("is truncated or damaged, HDF5 says: truncated file"));
  std::filesystem::resize_file(path_, 40);
  EXPECT_THAT(error(), StartsWith("is truncated or damaged, HDF5 says: "));
}

TEST_F(BadDumpTest, DamagedMetadata) {
  write_small_dump(path_);
  std::string bytes = bytes_of_file(path_);
  const std::size_t at = bytes.find("num_kv_heads");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'N';
  folder_.write("dump.h5", bytes);
  EXPECT_THAT(error(), HasSubstr("HDF5 says: incorrect metadata checksum"));
}

// Header.

TEST_F(BadDumpTest, Format) {
  EXPECT_EQ(error_after([](const Edit& e) { e.remove_attribute("/", "format"); }),
            "/: attribute 'format' is missing, expected 'attention-dump'");
  EXPECT_EQ(error_after([](const Edit& e) { e.text("/", "format", "something"); }),
            "/: attribute 'format' is 'something', expected 'attention-dump'");
  EXPECT_THAT(error_after([](const Edit& e) { e.text("/", "format", "attention-study"); }),
              HasSubstr("this is a results file"));
  EXPECT_EQ(error_after([](const Edit& e) { e.integer("/", "format", 1); }),
            "/: attribute 'format' is an integer, expected a string");
}

TEST_F(BadDumpTest, FormatVersion) {
  EXPECT_EQ(error_after([](const Edit& e) { e.integer("/", "format_version", 2); }),
            "/: attribute 'format_version' is 2, expected 1");
  EXPECT_THAT(error_after([](const Edit& e) { e.text("/", "format_version", "1"); }),
              HasSubstr("attribute 'format_version' is a string, expected an integer"));
  EXPECT_THAT(error_after([](const Edit& e) { e.remove_attribute("/", "format_version"); }), HasSubstr("is missing"));
}

TEST_F(BadDumpTest, MissingAttribute) {
  for (const char* name : {"model", "num_layers", "num_query_heads", "num_kv_heads", "head_dim"}) {
    EXPECT_THAT(error_after([&](const Edit& e) { e.remove_attribute("/", name); }),
                StartsWith("/: attribute '" + std::string(name) + "' is missing, expected "));
  }
  for (const char* name : {"task", "num_tokens"}) {
    EXPECT_THAT(error_after([&](const Edit& e) { e.remove_attribute(kFirst, name); }),
                StartsWith(kFirst + ": attribute '" + name + "' is missing, expected "));
  }
}

TEST_F(BadDumpTest, ValuesInKeys) {
  for (const int value : {-1, 2})
    EXPECT_EQ(error_after([&](const Edit& e) { e.integer("/", "values_in_keys", value); }),
              "/: attribute 'values_in_keys' is " + std::to_string(value) + ", expected an integer from 0 to 1");
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.integer("/", "values_in_keys", 1);
              e.integer("/", "value_dim", 9);
            }),
            "/: attribute 'values_in_keys' is 1, expected 'value_dim', which is 9, to be at most 'head_dim', 8");
}

TEST_F(BadDumpTest, CountsOfAWrongKind) {
  for (const char* name : {"num_layers", "num_query_heads", "num_kv_heads", "head_dim", "value_dim"}) {
    const std::string attribute = "/: attribute '" + std::string(name) + "' is ";
    const std::string expected = ", expected an integer from 1 to 2147483647";
    EXPECT_EQ(error_after([&](const Edit& e) { e.integer("/", name, 0); }), attribute + "0" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.integer("/", name, -3); }), attribute + "-3" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.integer("/", name, std::int64_t{1} << 40); }),
              attribute + "1099511627776" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, 128.5); }), attribute + "128.5" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, std::nan("")); }), attribute + "nan" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.text("/", name, "8"); }), attribute + "a string" + expected);
    const std::int64_t values[]{8, 8};
    EXPECT_EQ(error_after([&](const Edit& e) { e.attribute("/", name, H5T_NATIVE_INT64, values, {2}); }),
              attribute + "an array of 2 values" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.attribute("/", name, H5T_NATIVE_INT64, values, {1}); }),
              attribute + "an array of 1 values" + expected);
  }
}

TEST_F(BadDumpTest, UnsignedCountBeyondSigned) {
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_THAT(error_after([&](const Edit& e) { e.attribute("/", "head_dim", H5T_NATIVE_UINT64, &huge); }),
              StartsWith("/: attribute 'head_dim' is 9223372036854775807, expected"));
}

TEST_F(BadDumpTest, KvHeadsThatDoNotDivide) {
  EXPECT_EQ(error_after([](const Edit& e) { e.integer("/", "num_query_heads", 7); }),
            "/: attribute 'num_kv_heads' is 2, expected a divisor of 'num_query_heads', which is 7");
}

TEST_F(BadDumpTest, ScaleAndSoftcapOfAWrongKind) {
  for (const char* name : {"softmax_scale", "logit_softcap"}) {
    const std::string attribute = "/: attribute '" + std::string(name) + "' is ";
    const std::string expected = ", expected a finite number above 0";
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, 0); }), attribute + "0" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, -1); }), attribute + "-1" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, std::nan("")); }), attribute + "nan" + expected);
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, HUGE_VAL); }), attribute + "inf" + expected);
    const std::string in_float32 = ", expected a number that float32 holds, 1.2e-38 to 3.4e+38";
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, 5e-324); }),
              attribute + "4.94066e-324" + in_float32);
    EXPECT_EQ(error_after([&](const Edit& e) { e.number("/", name, 1e39); }), attribute + "1e+39" + in_float32);
    EXPECT_EQ(error_after([&](const Edit& e) { e.text("/", name, "1"); }), attribute + "a string" + expected);
    const double values[]{1, 2};
    EXPECT_EQ(error_after([&](const Edit& e) { e.attribute("/", name, H5T_NATIVE_DOUBLE, values, {2}); }),
              attribute + "an array of 2 values" + expected);
  }
}

TEST_F(BadDumpTest, AttributeWithoutAValue) {
  EXPECT_EQ(error_after([](const Edit& e) {
              e.remove_attribute("/", "model");
              const Handle space = own(H5Screate(H5S_NULL));
              own(H5Acreate2(e.file(), "model", H5T_C_S1, space.get(), H5P_DEFAULT, H5P_DEFAULT));
            }),
            "/: attribute 'model' holds no value, expected a string");
}

TEST_F(BadDumpTest, ReferenceForAString) {
  EXPECT_EQ(error_after([](const Edit& e) {
              hobj_ref_t reference;
              done(H5Rcreate(&reference, e.file(), "/samples", H5R_OBJECT, H5I_INVALID_HID));
              e.attribute("/", "model", H5T_STD_REF_OBJ, &reference);
            }),
            "/: attribute 'model' is a reference, expected a string");
}

// Samples.

TEST_F(BadDumpTest, NoSample) {
  EXPECT_EQ(error_after([](const Edit& e) { e.remove("/samples"); }), "/: 'samples' is missing");
  EXPECT_EQ(error_after([](const Edit& e) {
              e.remove("/samples/first");
              e.remove("/samples/second");
            }),
            "/samples: has no sample, expected at least one");
  EXPECT_EQ(error_after([](const Edit& e) {
              e.remove("/samples");
              e.zeros("/samples", H5T_NATIVE_INT, {1});
            }),
            "/samples: is not a group, expected one");
}

TEST_F(BadDumpTest, SampleAttributesOfAWrongKind) {
  EXPECT_EQ(error_after([](const Edit& e) { e.integer(kFirst, "task", 3); }),
            kFirst + ": attribute 'task' is an integer, expected a string");
  EXPECT_EQ(error_after([](const Edit& e) { e.integer(kFirst, "num_tokens", 0); }),
            kFirst + ": attribute 'num_tokens' is 0, expected an integer from 1 to 2147483647");
  EXPECT_EQ(error_after([](const Edit& e) { e.integer(kFirst, "prompt_length", 41); }),
            kFirst + ": attribute 'prompt_length' is 41, expected an integer from 0 to 40");
}

TEST_F(BadDumpTest, QueryPositions) {
  const std::string object = kFirst + "/query_positions";
  const auto with = [&](std::vector<hsize_t> extents, std::vector<std::int64_t> values) {
    return error_after([&](const Edit& e) { e.integers(object, extents, values); });
  };
  EXPECT_EQ(error_after([&](const Edit& e) { e.remove(object); }), kFirst + ": 'query_positions' is missing");
  EXPECT_EQ(with({3}, {0, 17, 40}), object + ": entry 2 is 40, expected 0 to 39 (num_tokens - 1)");
  EXPECT_EQ(with({3}, {-1, 17, 39}), object + ": entry 0 is -1, expected 0 to 39 (num_tokens - 1)");
  EXPECT_EQ(with({3}, {0, 17, 17}), object + ": entry 2 is 17 after 17, expected strictly ascending positions");
  EXPECT_EQ(with({3}, {17, 0, 39}), object + ": entry 1 is 0 after 17, expected strictly ascending positions");
  EXPECT_EQ(with({0}, {}), object + ": is empty, expected at least one position");
  EXPECT_EQ(with({1, 3}, {0, 17, 39}), object + ": has the shape [1, 3], expected [N]");
  EXPECT_EQ(with({}, {3}), object + ": has the shape [], expected [N]");
  EXPECT_EQ(error_after([&](const Edit& e) { e.zeros(object, H5T_IEEE_F32LE, {3}); }),
            object +
                ": has elements of type little-endian float of 32 bits (8 of exponent, 23 of mantissa), "
                "expected integers");
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.remove(object);
              e.group(object);
            }),
            object + ": is not a data set, expected one");
}

TEST_F(BadDumpTest, Tokens) {
  const std::string object = kFirst + "/tokens";
  EXPECT_EQ(error_after([&](const Edit& e) { e.zeros(object, H5T_STD_I32LE, {39}); }),
            object + ": has the shape [39], expected [40] (num_tokens)");
  EXPECT_THAT(error_after([&](const Edit& e) { e.zeros(object, H5T_IEEE_F64LE, {40}); }),
              EndsWith("expected integers"));
}

TEST_F(BadDumpTest, TokensThatAreReadHave32Bits) {
  write_small_dump(path_, {.overwrite = true});
  std::vector<std::int64_t> tokens(40, 7);
  tokens[5] = (std::int64_t{1} << 32) + 5;
  Edit(path_).integers(kFirst + "/tokens", {40}, tokens);
  const DumpReader dump(path_);
  EXPECT_EQ(message_of<InputError>([&] { dump.read_array<std::int32_t>(0, "tokens"); }),
            path_ + ": " + kFirst + "/tokens: entry 5 is 4294967301, expected -2147483648 to 2147483647");
}

TEST_F(BadDumpTest, Spans) {
  const std::string object = kFirst + "/spans";
  const auto with = [&](std::vector<hsize_t> extents, std::vector<std::int64_t> values) {
    return error_after([&](const Edit& e) { e.integers(object, extents, values); });
  };
  EXPECT_EQ(with({2, 2}, {3, 9, 30, 5}), object + ": span 1 is [30, 5), expected 0 <= begin < end <= 40 (num_tokens)");
  EXPECT_EQ(with({2, 2}, {3, 9, 5, 41}), object + ": span 1 is [5, 41), expected 0 <= begin < end <= 40 (num_tokens)");
  EXPECT_EQ(with({2, 2}, {-1, 9, 5, 6}), object + ": span 0 is [-1, 9), expected 0 <= begin < end <= 40 (num_tokens)");
  EXPECT_EQ(with({2, 2}, {4, 4, 5, 6}), object + ": span 0 is [4, 4), expected 0 <= begin < end <= 40 (num_tokens)");
  EXPECT_EQ(with({4}, {3, 9, 5, 30}), object + ": has the shape [4], expected [S, 2]");
  EXPECT_EQ(with({2, 3}, {1, 2, 3, 4, 5, 6}), object + ": has the shape [2, 3], expected [S, 2]");
}

TEST_F(BadDumpTest, SpanLabels) {
  const std::string object = kFirst + "/span_labels";
  EXPECT_EQ(error_after([&](const Edit& e) { e.zeros(object, H5T_C_S1, {3}); }),
            object + ": has the shape [3], expected [2] (one for each span)");
  EXPECT_THAT(error_after([&](const Edit& e) { e.zeros(object, H5T_STD_I32LE, {2}); }), EndsWith("expected strings"));
}

// Layers.

TEST_F(BadDumpTest, NoLayer) {
  EXPECT_EQ(error_after([](const Edit& e) { e.remove(kFirst + "/layers"); }), kFirst + ": 'layers' is missing");
  EXPECT_EQ(error_after([](const Edit& e) {
              e.remove("/samples/second/layers");
              e.group("/samples/second/layers");
            }),
            "/samples/second/layers: has no layer, expected at least one");
}

TEST_F(BadDumpTest, LayerNames) {
  for (const std::string name : {"6", "99999999999999999999", "two", "-1", "02", "1.0", "+1", " 1"}) {
    EXPECT_EQ(error_after([&](const Edit& e) { e.group(kFirst + "/layers/" + name); }),
              kFirst + "/layers: '" + name + "' is no layer number, expected 0 to 5 (num_layers - 1)");
  }
  EXPECT_EQ(error_after([&](const Edit& e) { e.zeros(kFirst + "/layers/4", H5T_NATIVE_INT, {1}); }),
            kFirst + "/layers/4: is not a group, expected one");
}

TEST_F(BadDumpTest, ControlCharactersOfNamesAreSpelled) {
  EXPECT_THAT(error_after([&](const Edit& e) { e.group(kFirst + "/layers/\x1b[2J\n"); }), HasSubstr("'\\x1b[2J\\x0a'"));
}

TEST_F(BadDumpTest, SlidingWindow) {
  for (const std::int64_t window : {0, -4096}) {
    EXPECT_EQ(
        error_after([&](const Edit& e) { e.integer(kLayer, "sliding_window", window); }),
        kLayer + ": attribute 'sliding_window' is " + std::to_string(window) + ", expected an integer of at least 1");
  }
  EXPECT_THAT(error_after([&](const Edit& e) { e.number(kLayer, "sliding_window", 0.5); }),
              HasSubstr("is 0.5, expected"));
}

TEST_F(BadDumpTest, MissingTensor) {
  for (const std::string name : {"q", "k", "v"}) {
    EXPECT_EQ(error_after([&](const Edit& e) { e.remove(kLayer + "/" + name); }),
              kLayer + ": '" + name + "' is missing");
  }
}

TEST_F(BadDumpTest, ShapesThatDisagree) {
  const auto with = [&](const char* name, std::vector<hsize_t> extents) {
    return error_after([&](const Edit& e) { e.zeros(kLayer + "/" + name, half_.get(), extents); });
  };
  const std::string q = " (query positions, num_query_heads, head_dim)";
  EXPECT_EQ(with("q", {2, 6, 8}), kLayer + "/q: has the shape [2, 6, 8], expected [3, 6, 8]" + q);
  EXPECT_EQ(with("q", {3, 2, 8}), kLayer + "/q: has the shape [3, 2, 8], expected [3, 6, 8]" + q);
  EXPECT_EQ(with("q", {3, 48}), kLayer + "/q: has the shape [3, 48], expected [3, 6, 8]" + q);
  const std::string k = " (num_kv_heads, num_tokens, head_dim)";
  EXPECT_EQ(with("k", {2, 39, 8}), kLayer + "/k: has the shape [2, 39, 8], expected [2, 40, 8]" + k);
  EXPECT_EQ(with("k", {40, 2, 8}), kLayer + "/k: has the shape [40, 2, 8], expected [2, 40, 8]" + k);
  EXPECT_EQ(with("k", {}), kLayer + "/k: has the shape [], expected [2, 40, 8]" + k);
  EXPECT_EQ(with("v", {2, 40, 8}), kLayer +
                                       "/v: has the shape [2, 40, 8], expected [2, 40, 5] (num_kv_heads, "
                                       "num_tokens, value_dim)");
  EXPECT_EQ(with("k", {2, 0, 8}), kLayer + "/k: has the shape [2, 0, 8], expected [2, 40, 8]" + k);
}

TEST_F(BadDumpTest, NumTokensThatDiffersFromT) {
  EXPECT_EQ(error_after([](const Edit& e) { e.integer("/samples/second", "num_tokens", 24); }),
            "/samples/second/layers/3/k: has the shape [2, 23, 8], expected [2, 24, 8] (num_kv_heads, num_tokens, "
            "head_dim)");
}

TEST_F(BadDumpTest, ElementTypes) {
  const auto with = [&](hid_t type) {
    return error_after([&](const Edit& e) { e.zeros(kLayer + "/k", type, {2, 40, 8}); });
  };
  const std::string prefix = kLayer + "/k: has elements of type ";
  const std::string expected = ", expected little-endian float16, bfloat16 or float32";
  EXPECT_EQ(with(H5T_IEEE_F64LE),
            prefix + "little-endian float of 64 bits (11 of exponent, 52 of mantissa)" + expected);
  EXPECT_EQ(with(H5T_IEEE_F32BE), prefix + "big-endian float of 32 bits (8 of exponent, 23 of mantissa)" + expected);
  EXPECT_EQ(with(H5T_STD_I16LE), prefix + "little-endian integer of 16 bits" + expected);
  EXPECT_EQ(with(H5T_STD_U16LE), prefix + "little-endian unsigned integer of 16 bits" + expected +
                                     " (uint16 stands for bfloat16 only with the attribute dtype = 'bfloat16')");
  EXPECT_EQ(with(H5T_STD_REF_OBJ), prefix + "reference" + expected);
  EXPECT_EQ(with(H5T_C_S1), prefix + "string" + expected);
  EXPECT_THAT(with(float_type(4, 3, 7).get()), EndsWith(expected)) << "fp8";
  EXPECT_THAT(with(float_type(5, 10, 16).get()), EndsWith(expected)) << "half with another bias";
  EXPECT_THAT(with(float_type(6, 9, 31).get()), EndsWith(expected));
  const Handle big_endian = float_type(8, 7, 127);
  done(H5Tset_order(big_endian.get(), H5T_ORDER_BE));
  EXPECT_EQ(with(big_endian.get()), prefix + "big-endian float of 16 bits (8 of exponent, 7 of mantissa)" + expected);
  const hsize_t two = 2;
  EXPECT_THAT(with(own(H5Tarray_create2(H5T_IEEE_F32LE, 1, &two)).get()), EndsWith(expected));
}

TEST_F(BadDumpTest, OtherNamesForUint16) {
  EXPECT_EQ(error_after([](const Edit& e) {
              e.zeros(kLayer + "/k", H5T_STD_U16LE, {2, 40, 8});
              e.text(kLayer + "/k", "dtype", "float16");
            }),
            kLayer + "/k: attribute 'dtype' is 'float16', expected 'bfloat16'");
  EXPECT_EQ(error_after([](const Edit& e) {
              e.zeros(kLayer + "/k", H5T_STD_U16LE, {2, 40, 8});
              e.integer(kLayer + "/k", "dtype", 7);
            }),
            kLayer + "/k: attribute 'dtype' is an integer, expected a string");
}

TEST_F(BadDumpTest, MixedElementTypes) {
  EXPECT_EQ(error_after([](const Edit& e) {
              e.zeros(kLayer + "/v", H5T_IEEE_F32LE, {2, 40, 5});
            }),
            kLayer + "/v: has elements of type float32, expected float16 as the layer's q");
}

TEST_F(BadDumpTest, OutputsOfAnEngine) {
  const std::string output = kLayer + "/output", lse = kLayer + "/output_lse";
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.zeros(output, half_.get(), {3, 6, 8});
            }),
            output + ": has the shape [3, 6, 8], expected [3, 6, 5] (query positions, num_query_heads, value_dim)");
  EXPECT_THAT(error_after([&](const Edit& e) {
                e.zeros(output, H5T_IEEE_F64LE, {3, 6, 5});
              }),
              ::testing::HasSubstr(output + ": has elements of type"));
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.zeros(lse, H5T_IEEE_F32LE, {6, 3});
            }),
            lse + ": has the shape [6, 3], expected [3, 6] (query positions, num_query_heads)");
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.zeros(lse, half_.get(), {3, 6});
            }),
            lse + ": has elements of type float16, expected float32");
}

TEST_F(BadDumpTest, ScalesOfOutputGradients) {
  const std::string object = kLayer + "/output_gradient";
  const auto error_of = [&](const std::vector<double>& scales) {
    return error_after([&](const Edit& e) {
      const double none = 0;
      e.zeros(object, half_.get(), {scales.size(), 3, 6, 5});
      e.attribute(object, "scales", H5T_NATIVE_DOUBLE, scales.empty() ? &none : scales.data(), {scales.size()});
    });
  };
  EXPECT_EQ(error_of({1, 0.5}), "");
  EXPECT_EQ(error_of({0.5, 0.5}),
            object + ": entry 0 of attribute 'scales' is 0.5, expected numbers from 0 to 1, each once");
  EXPECT_EQ(error_of({}), object + ": is empty, expected the gradients of at least one scale");
}

TEST_F(BadDumpTest, AttentionMass) {
  const std::string object = kFirst + "/layers/0/attention_mass";
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.zeros(object, H5T_IEEE_F32LE, {2, 40});
            }),
            object + ": has the shape [2, 40], expected [6, 40] (num_query_heads, num_tokens)");
  EXPECT_EQ(error_after([&](const Edit& e) {
              e.zeros(object, half_.get(), {6, 40});
            }),
            object + ": has elements of type float16, expected float32");
}

}  // namespace
}  // namespace attest::test
