// Damaged dumps: whatever the bytes, the reader gives values or an InputError, soon, and without much memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>

#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::testing {
namespace {

using Random = std::mt19937_64;

/// The ways in which files break, or are broken.
std::string damaged(std::string bytes, Random& random) {
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto overwrite = [&](std::size_t at, const std::string& with) {
    bytes.replace(at, std::min(with.size(), bytes.size() - at), with.substr(0, bytes.size() - at));
  };
  constexpr std::uint64_t kLengths[]{0, 1, 0x7F, 0xFF, 0xFFFF, 0xFFFFFFFF, ~std::uint64_t{0}, std::uint64_t{1} << 62};
  for (std::size_t times = 1 + below(3); times > 0; --times) {
    const std::size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2: {
        const std::uint64_t length = kLengths[below(std::size(kLengths))];
        overwrite(at, {reinterpret_cast<const char*>(&length), std::size_t{1} << below(4)});
        break;
      }
      case 3:
        overwrite(at, bytes.substr(below(bytes.size()), 1 + below(64)));
        break;  // one piece over another
      case 4:
        overwrite(at, std::string(1 + below(32), '\0'));
        break;
      case 5: {
        std::uint64_t address = below(bytes.size());  // a pointer to somewhere else in the file
        overwrite(at, {reinterpret_cast<const char*>(&address), 8});
        break;
      }
    }
  }
  if (below(10) == 0) bytes.resize(below(bytes.size()));
  return bytes;
}

enum class Outcome { read, refused };

/// Reads everything. Any error but an InputError leaves the test.
Outcome read_all(const std::string& path) {
  try {
    const DumpReader reader(path);
    AttentionLayer layer;
    for (std::size_t sample = 0; sample < reader.info().samples.size(); ++sample) {
      reader.read_tokens(sample);
      for (const int number : reader.info().samples[sample].layers) {
        reader.read_layer(sample, number, layer);
        reader.read_attention_mass(sample, number);
      }
    }
    return Outcome::read;
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).rfind(path + ": ", 0), 0u) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return Outcome::refused;
  }
}

long peak_kib(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage.ru_maxrss;
}

struct Variant {
  const char* name;
  void (*write)(const std::string& path);
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class DumpFuzzSlowTest : public ::testing::TestWithParam<Variant> {};

TEST_P(DumpFuzzSlowTest, DamageNeverEscapes) {
  constexpr int kRounds = 120;
  const ScratchFolder folder;
  const std::string path = folder.file("dump.h5");
  GetParam().write(path);
  const std::string whole = bytes_of_file(path);
  ASSERT_EQ(read_all(path), Outcome::read);
  const long peak_before = peak_kib(RUSAGE_SELF);

  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    Random random(static_cast<std::uint64_t>(round));
    folder.write("dump.h5", damaged(whole, random));
    SCOPED_TRACE("round " + std::to_string(round));
    const auto start = std::chrono::steady_clock::now();
    ASSERT_NO_THROW(refused += read_all(path) == Outcome::refused);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ASSERT_LT(seconds.count(), 60);
    if (HasFatalFailure() || HasNonfatalFailure()) {
      const auto kept =
          std::filesystem::temp_directory_path() / ("attest-fuzz-failure-" + std::to_string(round) + ".h5");
      std::filesystem::copy_file(path, kept, std::filesystem::copy_options::overwrite_existing);
      FAIL() << "the file is kept as " << kept;
    }
  }
  EXPECT_GT(refused, kRounds / 20) << "the damage was too little to try anything";
  EXPECT_LT(refused, kRounds) << "the damage was so much that nothing lay behind the first check";
  EXPECT_LT(peak_kib(RUSAGE_SELF) - peak_before, 128 * 1024);
  EXPECT_LT(peak_kib(RUSAGE_CHILDREN) - peak_before, 1536 * 1024);
}

INSTANTIATE_TEST_SUITE_P(
    Storage, DumpFuzzSlowTest,
    ::testing::Values(Variant{"contiguous", [](const std::string& path) { write_small_dump(path); }},
                      Variant{"gzip", [](const std::string& path) { write_small_dump(path, {.gzip_level = 4}); }},
                      Variant{"old_contiguous", [](const std::string& path) { write_old_format_dump(path); }},
                      Variant{"old_gzip",
                              [](const std::string& path) { write_old_format_dump(path, {.gzip_level = 4}); }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace attest::testing
