#include "dumps/import/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "dumps/base/error.h"
#include "tests/dumps/import/array_files.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::map<std::string, SourceTensor> by_name(const TensorSource& source) {
  std::map<std::string, SourceTensor> tensors;
  for (const SourceTensor& tensor : source.tensors()) tensors[tensor.name] = tensor;
  return tensors;
}

std::string read(TensorSource& source, std::string_view name, std::uint64_t offset, std::size_t bytes) {
  for (std::size_t i = 0; i < source.tensors().size(); ++i)
    if (source.tensors()[i].name == name) {
      std::string out(bytes, '?');
      source.read(i, offset, std::as_writable_bytes(std::span(out)));
      return out;
    }
  return "no such tensor";
}

TEST(Safetensors, types_shapes_and_values_are_those_of_the_file) {
  const ScratchFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors(R"({"__metadata__":{"format":"pt"},)"
                                                R"("x":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                                                R"("h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                                                R"("f":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
                                                R"("u":{"dtype":"U16","shape":[1],"data_offsets":[16,18]},)"
                                                R"("d":{"dtype":"F64","shape":[0,7],"data_offsets":[20,20]},)"
                                                R"("q":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]}}   )",
                                                "hhHHabcdefghijklFFFF"));
  const auto source = open_safetensors(path);
  const auto tensors = by_name(*source);
  ASSERT_EQ(tensors.size(), 6u);
  EXPECT_EQ(tensors.at("x").element_type, ElementType::bfloat16);
  EXPECT_THAT(tensors.at("x").shape, ElementsAre(2, 3));
  EXPECT_FALSE(tensors.at("x").column_major);
  EXPECT_EQ(tensors.at("h").element_type, ElementType::float16);
  EXPECT_EQ(tensors.at("f").element_type, ElementType::float32);
  EXPECT_EQ(tensors.at("f").elements(), 1);
  EXPECT_EQ(tensors.at("d").element_type, std::nullopt);
  EXPECT_EQ(tensors.at("q").type_name, "F8_E4M3");
  EXPECT_TRUE(tensors.at("u").bits_of_16);
  EXPECT_FALSE(tensors.at("x").bits_of_16);
  EXPECT_EQ(tensors.at("x").place(), path + ": tensor 'x'");
  EXPECT_EQ(read(*source, "x", 0, 12), "abcdefghijkl");
  EXPECT_EQ(read(*source, "x", 7, 3), "hij");
  EXPECT_EQ(read(*source, "f", 0, 4), "FFFF");
}

struct Malformed {
  std::string name, bytes, complaint;
};
void PrintTo(const Malformed& m, std::ostream* out) { *out << m.name; }

class MalformedSafetensors : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensors, is_refused_in_one_sentence) {
  const ScratchFolder folder;
  const std::string path = folder.write("bad.safetensors", GetParam().bytes);
  const std::string message = message_of<InputError>([&] { open_safetensors(path); });
  EXPECT_EQ(message, path + ": " + GetParam().complaint);
}

std::string tensor(std::string_view description, std::string_view data = "12345678") {
  return safetensors(R"({"x":)" + std::string(description) + "}", data);
}

INSTANTIATE_TEST_SUITE_P(
    Files, MalformedSafetensors,
    testing::Values(
        Malformed{"empty", "", "expected a safetensors header, found a file of 0 bytes"},
        Malformed{"seven_bytes", "1234567", "expected a safetensors header, found a file of 7 bytes"},
        Malformed{"length_beyond_file", little(100, 8) + "{}",
                  "safetensors header: expected at most 2 bytes, found a length of 100"},
        Malformed{"length_huge", little(~0ull, 8) + "{}",
                  "safetensors header: expected at most 2 bytes, found a length of 18446744073709551615"},
        Malformed{"syntax", safetensors("{\"x\":"),
                  "safetensors header: expected JSON, found a syntax error at its byte 6"},
        Malformed{"no_header", safetensors(""),
                  "safetensors header: expected JSON, found a syntax error at its byte 1"},
        Malformed{"not_utf8", safetensors("{\"\xff\":1}"),
                  "safetensors header: expected JSON, found a syntax error at its byte 3"},
        Malformed{"number_overflows", safetensors("{\"x\":1e999}"),
                  "safetensors header: expected numbers of 64 bits, found a larger one"},
        Malformed{"array", safetensors("[]"), "safetensors header: expected a JSON object, found another value"},
        Malformed{"deep", safetensors(std::string(100000, '[')),
                  "safetensors header: expected at most three levels of JSON, found more"},
        Malformed{
            "twice",
            safetensors(
                R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                "12345678"),
            "safetensors header: expected each name once, found 'x' twice"},
        Malformed{"no_object", tensor("7"), "tensor 'x': expected a JSON object, found another value"},
        Malformed{"no_dtype", tensor(R"({"shape":[1],"data_offsets":[0,4]})"),
                  "tensor 'x': expected dtype, found none"},
        Malformed{"dtype_number", tensor(R"({"dtype":4,"shape":[1],"data_offsets":[0,4]})"),
                  "tensor 'x': expected a string 'dtype', found another value"},
        Malformed{"shape_object", tensor(R"({"dtype":"F32","shape":{},"data_offsets":[0,4]})"),
                  "tensor 'x': expected an array 'shape', found another value"},
        Malformed{"axis_negative", tensor(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"),
                  "tensor 'x': expected axes that are whole numbers, found '-1'"},
        Malformed{"axis_fraction", tensor(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})"),
                  "tensor 'x': expected axes that are whole numbers, found '1.0'"},
        Malformed{"product_overflows",
                  tensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
                  "tensor 'x': expected data_offsets that span shape [4294967296, 4294967296] of F32, found 0 bytes"},
        Malformed{"bytes_overflow", tensor(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})"),
                  "tensor 'x': expected data_offsets that span shape [4611686018427387904] of F32, found 0 bytes"},
        Malformed{"one_offset", tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"),
                  "tensor 'x': expected two whole numbers 'data_offsets', found '[0]'"},
        Malformed{"offsets_reversed", tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"),
                  "tensor 'x': expected data_offsets within the 8 bytes of data, found [4, 0]"},
        Malformed{"offsets_beyond", tensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,12]})"),
                  "tensor 'x': expected data_offsets within the 8 bytes of data, found [0, 12]"},
        Malformed{"offsets_huge",
                  tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]})"),
                  "tensor 'x': expected data_offsets within the 8 bytes of data, found [18446744073709551612, "
                  "18446744073709551615]"},
        Malformed{"size_differs", tensor(R"({"dtype":"BF16","shape":[3],"data_offsets":[0,8]})"),
                  "tensor 'x': expected data_offsets that span shape [3] of BF16, found 8 bytes"},
        Malformed{"name_of_control_characters", safetensors("{\"a\\n\\u001b[2J\":7}"),
                  "tensor 'a\\x0a\\x1b[2J': expected a JSON object, found another value"}),
    [](const auto& info) { return info.param.name; });

TEST(Safetensors, whatever_the_bytes_it_reads_or_refuses) {
  const ScratchFolder folder;
  const std::string good = safetensors(
      R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})",
      "abcdefghijkl");
  const auto try_bytes = [&](const std::string& bytes) {
    const std::string path = folder.write("x.safetensors", bytes);
    std::unique_ptr<TensorSource> source;
    try {
      source = open_safetensors(path);
    } catch (const InputError&) {
      return false;
    }
    for (std::size_t i = 0; i < source->tensors().size(); ++i) {
      const SourceTensor& tensor = source->tensors()[i];
      if (!tensor.element_type) continue;
      std::vector<std::byte> out(static_cast<std::size_t>(tensor.elements()) * size_of(*tensor.element_type));
      EXPECT_LE(out.size(), bytes.size());
      source->read(i, 0, out);
    }
    return true;
  };
  ASSERT_TRUE(try_bytes(good));
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(try_bytes(good.substr(0, length))) << length;
  int read = 0;
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const int flip : {0x01, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      read += try_bytes(bad);
    }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace attest
