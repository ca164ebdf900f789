#include "dumps/import/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dumps/base/error.h"
#include "tests/dumps/import/array_files.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::ElementsAre;

std::string read(TensorSource& source, std::size_t tensor, std::uint64_t offset, std::size_t bytes) {
  std::string out(bytes, '?');
  source.read(tensor, offset, std::as_writable_bytes(std::span(out)));
  return out;
}

/// Bytes that deflate cannot shrink to nothing.
std::string noise(std::size_t bytes) {
  std::mt19937 random(7);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random() % 17);
  return text;
}

TEST(Npz, types_shapes_orders_and_versions_are_those_of_the_file) {
  const ScratchFolder folder;
  const std::string path = folder.write(
      "a.npz",
      zip({{.name = "f4.npy", .content = npy(npy_dict("<f4", "(2, 3)"), std::string(24, 'a'))},
           {.name = "f2.npy", .content = npy(npy_dict("<f2", "(5,)", true), "0123456789", 2), .deflated = true},
           {.name = "u2.npy", .content = npy(npy_dict("<u2", "()"), "xy", 3), .zip64 = true},
           {.name = "v2.npy", .content = npy(npy_dict("|V2", "(1L, 1L)"), "xy")},
           {.name = "f8.npy", .content = npy(npy_dict("<f8", "(1,)"), "12345678")},
           {.name = "big.npy", .content = npy(npy_dict(">f4", "(1,)"), "1234")},
           {.name = "record.npy",
            .content = npy("{'descr': [('a', '<f4'), ('b', '<f4', (2,))], 'fortran_order': False, 'shape': (1,)}",
                           "123456789012")},
           {.name = "object.npy", .content = npy(npy_dict("|O", "(1,)"), "pickle")},
           {.name = "readme.txt", .content = "not an array"}}));
  const auto source = open_npz(path);
  const auto& tensors = source->tensors();
  ASSERT_EQ(tensors.size(), 8u);
  EXPECT_EQ(tensors[0].name, "f4");
  EXPECT_EQ(tensors[0].element_type, ElementType::float32);
  EXPECT_THAT(tensors[0].shape, ElementsAre(2, 3));
  EXPECT_FALSE(tensors[0].column_major);
  EXPECT_EQ(tensors[1].element_type, ElementType::float16);
  EXPECT_TRUE(tensors[1].column_major);
  EXPECT_TRUE(tensors[2].shape.empty());
  EXPECT_THAT(tensors[3].shape, ElementsAre(1, 1));
  for (const std::size_t i : {2, 3}) EXPECT_TRUE(tensors[i].bits_of_16 && !tensors[i].element_type) << i;
  for (const std::size_t i : {4, 5, 6, 7}) EXPECT_TRUE(!tensors[i].bits_of_16 && !tensors[i].element_type) << i;
  EXPECT_EQ(tensors[6].type_name, "[...]");
  EXPECT_EQ(read(*source, 0, 0, 24), std::string(24, 'a'));
  EXPECT_EQ(read(*source, 1, 3, 4), "3456");
  EXPECT_EQ(read(*source, 2, 0, 2), "xy");
}

TEST(Npz, any_part_can_be_read_in_any_order) {
  const ScratchFolder folder;
  const std::string values = noise(300'000);
  for (const bool deflated : {false, true}) {
    const std::string path = folder.write(
        "a.npz", zip({{.name = "x.npy", .content = npy(npy_dict("<f4", "(75000,)"), values), .deflated = deflated},
                      {.name = "y.npy", .content = npy(npy_dict("<f2", "(2,)"), "abcd"), .deflated = deflated}},
                     true));
    const auto source = open_npz(path);
    for (const std::uint64_t offset : {0, 100, 100'000, 5, 299'000, 150'000, 0})
      EXPECT_TRUE(read(*source, 0, offset, 1000) == values.substr(offset, 1000)) << offset;
    EXPECT_EQ(read(*source, 1, 0, 4), "abcd");
    EXPECT_TRUE(read(*source, 0, 0, values.size()) == values);
  }
}

TEST(Npz, a_checksum_that_differs_is_found_when_all_was_read) {
  const ScratchFolder folder;
  const std::string values = noise(8000);
  for (const bool deflated : {false, true}) {
    const ZipEntry forged{
        .name = "x.npy", .content = npy(npy_dict("<f4", "(2000,)"), values), .deflated = deflated, .crc = 12345};
    const std::string path = folder.write("a.npz", zip({forged}));
    const auto source = open_npz(path);
    EXPECT_TRUE(read(*source, 0, 0, 7000) == values.substr(0, 7000));
    EXPECT_EQ(message_of<InputError>([&] { read(*source, 0, 7000, 1000); }),
              path + ": zip archive: member 'x.npy': expected 8071 bytes of data, found a checksum that differs");
  }
}

struct Malformed {
  std::string name, bytes, complaint;
};
void PrintTo(const Malformed& m, std::ostream* out) { *out << m.name; }

class MalformedNpz : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedNpz, is_refused_in_one_sentence) {
  const ScratchFolder folder;
  const std::string path = folder.write("bad.npz", GetParam().bytes);
  EXPECT_EQ(message_of<InputError>([&] { open_npz(path); }), path + ": " + GetParam().complaint);
}

ZipEntry entry() { return {.name = "x.npy", .content = npy(npy_dict("<f4", "(1,)"), "1234")}; }

std::string changed(auto&& change) {
  ZipEntry e = entry();
  change(e);
  return zip({e});
}

/// An archive of one array with this header and content.
std::string array(std::string_view dict, std::string_view data = "1234") {
  return zip({{.name = "x.npy", .content = npy(dict, data)}});
}

INSTANTIATE_TEST_SUITE_P(
    Archives, MalformedNpz,
    testing::Values(
        Malformed{"empty", "", "zip archive: expected its end record, found none (a truncated file?)"},
        Malformed{"cut", zip({entry()}).substr(0, 100),
                  "zip archive: expected its end record, found none (a truncated file?)"},
        Malformed{"front_cut", zip({entry()}).substr(10), "zip archive: expected 1 members in its directory, found 0"},
        Malformed{"encrypted", changed([](auto& e) { e.flags = 1; }),
                  "zip archive: member 'x.npy': expected plain data, found an encrypted member"},
        Malformed{"bzip2", changed([](auto& e) { e.method = 12; }),
                  "zip archive: member 'x.npy': expected a stored or deflated member, found compression method 12"},
        Malformed{"stored_sizes_differ", changed([](auto& e) { e.size = 1000; }),
                  "zip archive: member 'x.npy': expected exactly 72 bytes for 72 stored ones, found 1000"},
        Malformed{"beyond_file", changed([](auto& e) { e.stored = e.size = 1000; }),
                  "zip archive: member 'x.npy': expected data within the file's 180 bytes, found 1000 bytes at 35"},
        Malformed{"beyond_everything", changed([](auto& e) { e.zip64 = true, e.stored = e.size = 0x7fffffffffffffff; }),
                  "zip archive: member 'x.npy': expected data within the file's 228 bytes, found 9223372036854775807 "
                  "bytes at 55"},
        Malformed{"bomb", changed([](auto& e) { e.deflated = true, e.size = 1000000000; }),
                  "zip archive: member 'x.npy': expected at most 72240 bytes for 69 stored ones, found 1000000000"},
        Malformed{"header_elsewhere", changed([](auto& e) { e.offset = 1; }),
                  "zip archive: expected its header of member 'x.npy' at byte 1, found other bytes"},
        Malformed{"header_beyond", changed([](auto& e) { e.offset = 1 << 30; }),
                  "zip archive: expected its header of member 'x.npy' within 180 bytes, found it at 1073741824"},
        Malformed{"more_members", zip({entry()}, false, 2),
                  "zip archive: expected at most 1 members in a directory of 51 bytes, found 2"},
        Malformed{"members_without_end", zip({entry()}, true, 0x7fffffffffffffff),
                  "zip archive: expected at most 1 members in a directory of 51 bytes, found 9223372036854775807"},
        Malformed{"twice", zip({entry(), entry()}), "expected each member once, found 'x.npy' twice"},
        Malformed{"no_array", zip({{.name = "x.npy", .content = "hello, no array"}}),
                  "tensor 'x': array header: expected a NumPy array, found other bytes"},
        Malformed{"short_array", zip({{.name = "x.npy", .content = "\x93NUM"}}),
                  "tensor 'x': array header: expected a NumPy array, found other bytes"},
        Malformed{"version_4", zip({{.name = "x.npy", .content = npy(npy_dict("<f4", "(1,)"), "1234", 4)}}),
                  "tensor 'x': array header: expected version 1, 2 or 3, found 4"},
        Malformed{"length_beyond",
                  zip({{.name = "x.npy", .content = "\x93NUMPY" + little(1, 2) + little(0xffff, 2) + "{}"}}),
                  "tensor 'x': array header: expected at most 2 bytes, found a length of 65535"},
        Malformed{"no_dict", array("42"), "tensor 'x': array header: expected '{', found '42\\x0a'"},
        Malformed{"unfinished", array("{'descr': '<f4"),
                  "tensor 'x': array header: expected a string, found ''<f4\\x0a'"},
        Malformed{"no_shape", array("{'descr': '<f4', 'fortran_order': False}"),
                  "tensor 'x': array header: expected the keys 'descr', 'fortran_order' and 'shape', found ''"},
        Malformed{"other_key", array("{'x': 1}"),
                  "tensor 'x': array header: expected a key 'descr', 'fortran_order' or 'shape', found ' 1}\\x0a'"},
        Malformed{"key_twice", array("{'shape': (1,), 'shape': (1,)}"),
                  "tensor 'x': array header: expected each key once, found '}\\x0a'"},
        Malformed{"text_after", array(npy_dict("<f4", "(1,)") + "os.system"),
                  "tensor 'x': array header: expected nothing after '}', found 'os.system\\x0a'"},
        Malformed{"order_number", array("{'fortran_order': 1}"),
                  "tensor 'x': array header: expected True or False, found '1}\\x0a'"},
        Malformed{"axis_negative", array(npy_dict("<f4", "(-1,)")),
                  "tensor 'x': array header: expected a whole number, found '-1,), }\\x0a'"},
        Malformed{"axis_huge", array(npy_dict("<f4", "(99999999999999999999,)")),
                  "tensor 'x': array header: expected a whole number, found '9999999999999999'"},
        Malformed{"endless_list", array("{'descr': [[[["),
                  "tensor 'x': array header: expected a list that ends, found '[[[[\\x0a'"},
        Malformed{"data_short", array(npy_dict("<f4", "(2,)")),
                  "tensor 'x': expected data for shape [2] of '<f4', found 4 bytes"},
        Malformed{"data_long", array(npy_dict("<f4", "(1,)"), "12345"),
                  "tensor 'x': expected data for shape [1] of '<f4', found 5 bytes"},
        Malformed{"product_overflows", array(npy_dict("<f4", "(4294967296, 4294967296)")),
                  "tensor 'x': expected data for shape [4294967296, 4294967296] of '<f4', found 4 bytes"}),
    [](const auto& info) { return info.param.name; });

TEST(Npz, damaged_deflate_data_is_refused) {
  const ScratchFolder folder;
  const std::string good =
      zip({{.name = "x.npy", .content = npy(npy_dict("<f4", "(7500,)"), noise(30'000)), .deflated = true}});
  const auto read_all = [&](std::string bytes) {
    const std::string path = folder.write("x.npz", bytes);
    const auto source = open_npz(path);
    return read(*source, 0, 0, 30'000);
  };
  EXPECT_TRUE(read_all(good) == noise(30'000));
  std::string bad = good;
  bad[5000] = static_cast<char>(bad[5000] ^ 0x55);
  EXPECT_NE(message_of<InputError>([&] { read_all(bad); }), "");
  // The stream ends before the claimed size does.
  ZipEntry early{.name = "x.npy", .content = npy(npy_dict("<f4", "(7500,)"), noise(29'000)), .deflated = true};
  early.size = static_cast<std::int64_t>(early.content.size()) + 1000;
  EXPECT_THAT(message_of<InputError>([&] { read_all(zip({early})); }), testing::EndsWith("bytes of data, found fewer"));
}

TEST(Npz, whatever_the_bytes_it_reads_or_refuses) {
  const ScratchFolder folder;
  const std::string good =
      zip({{.name = "a.npy", .content = npy(npy_dict("<f4", "(3,)"), "abcdefghijkl"), .deflated = true},
           {.name = "b.npy", .content = npy(npy_dict("<f2", "(2, 1)"), "abcd"), .zip64 = true}},
          true);
  const auto try_bytes = [&](const std::string& bytes) {
    const std::string path = folder.write("x.npz", bytes);
    try {
      const auto source = open_npz(path);
      for (std::size_t i = 0; i < source->tensors().size(); ++i) {
        const SourceTensor& tensor = source->tensors()[i];
        if (!tensor.element_type) continue;
        std::vector<std::byte> out(static_cast<std::size_t>(tensor.elements()) * size_of(*tensor.element_type));
        EXPECT_LT(out.size(), 2000 * bytes.size());
        source->read(i, 0, out);
      }
      return true;
    } catch (const InputError&) {
      return false;
    }
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
