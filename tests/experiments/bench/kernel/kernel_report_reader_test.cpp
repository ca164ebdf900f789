// A kernel report written and read again, and what the reader refuses and how.
#include <gtest/gtest.h>

#include <cmath>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "tests/dumps/json_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/experiments/bench/kernel/made_kernel_report.h"
#include "tests/message_of.h"

namespace attest {
namespace {

/// The message with which `bytes` are refused, without the file's name; "" if they are not.
std::string refusal(std::string_view bytes) {
  const ScratchFolder folder;
  const std::string path = folder.write("bench.json", bytes);
  return refusal_of_file<InputError>(path, [&] { read_kernel_report(path); });
}

/// The same for a sound report with another value at `place`.
std::string refusal_of(const std::string& place, const Json& value) {
  Json document = json_of(made_kernel_report());
  json_at(document, place) = value;
  return refusal(document.dump());
}

TEST(KernelReport, IsReadAsItWasWritten) {
  const ScratchFolder folder;
  const std::string text = json_of(made_kernel_report()).dump();
  const KernelReport report = read_kernel_report(folder.write("bench.json", text));
  EXPECT_EQ(json_of(report).dump(), text);
  EXPECT_EQ(report.seed, 18446744073709551615u);
  EXPECT_TRUE(std::isnan(report.machine.memory_clock_mhz));
  ASSERT_EQ(report.measurements.size(), 5u);
  EXPECT_EQ(report.measurements[0].layer, 3);
  EXPECT_EQ(report.measurements[0].setting.value, 5);
  EXPECT_EQ(report.measurements[0].fidelity->recall_min, -0.5);
  EXPECT_TRUE(std::isnan(report.measurements[1].delta));
  EXPECT_FALSE(report.measurements[4].layer);
  EXPECT_FALSE(report.measurements[4].fidelity);
}

TEST(KernelReport, IsAsTheDocumentShowsIt) {
  const std::string text = bytes_of_file(ATTEST_SOURCE_DIR "/experiments/manual/bench.md");
  const std::size_t begin = text.find("{\"format\": \"attest-kernel-bench\""), end = text.find("```", begin);
  ASSERT_NE(end, std::string::npos);
  const ScratchFolder folder;
  const std::string shown = text.substr(begin, end - begin);
  const KernelReport report = read_kernel_report(folder.write("bench.json", shown));
  EXPECT_EQ(parse_json(shown), json_of(report)) << json_of(report).dump(1);
}

TEST(KernelReport, HasTheFieldsOfTheFormat) {
  const Json json = json_of(made_kernel_report());
  EXPECT_EQ(json["format"], "attest-kernel-bench");
  EXPECT_EQ(json["format_version"], 1);
  const Json& m = json["measurements"][4];
  EXPECT_TRUE(m["layer"].is_null() && m["sample"].is_null() && m["delta"].is_null() && m["fidelity"].is_null());
  EXPECT_TRUE(m["launches"].is_null());
  EXPECT_EQ(m["setting"], (Json{{"kind", "none"}, {"value", 0.0}}));
  EXPECT_EQ(json["left_out"][0]["method"], "sdpa_cudnn");
  KernelReport generated = made_kernel_report();
  generated.data = {};
  EXPECT_EQ(json_of(generated)["data"], (Json{{"source", "generated"}}));
}

TEST(KernelReport, RefusesOtherFiles) {
  EXPECT_EQ(message_of<InputError>([] { read_kernel_report("/nonexistent.json"); }).find("/nonexistent.json"), 0u);
  EXPECT_EQ(refusal("x"), "line 1, column 1: syntax error while parsing value - invalid literal; last read: 'x'");
  EXPECT_EQ(refusal("[]"), "expected a kernel report of 'attest bench kernel', a JSON object, found a list");
  EXPECT_EQ(refusal("{}"), "format is missing, expected \"attest-kernel-bench\"");
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "b": 2}})"), "a.b is there twice, expected once");
  EXPECT_EQ(refusal_of("/format", "attest-recommendation"),
            "format is \"attest-recommendation\", expected \"attest-kernel-bench\"");
  EXPECT_EQ(refusal_of("/format_version", 2), "format_version is 2, expected a whole number from 1 to 1");
}

TEST(KernelReport, NamesThePlaceOfADefect) {
  EXPECT_EQ(refusal_of("/measurements/1/scan", "3-bit"),
            R"(measurements[1].scan is "3-bit", expected one of "2-bit", "4-bit", "8-bit", "16-bit")");
  EXPECT_EQ(refusal_of("/measurements/0/microseconds/1", -1),
            "measurements[0].microseconds[1] is -1, expected a number of at least 0");
  EXPECT_EQ(refusal_of("/measurements/0/setting", 5), "measurements[0].setting is 5, expected an object");
  EXPECT_EQ(refusal_of("/measurements/0/setting/kind", nullptr),
            R"(measurements[0].setting.kind is null, expected one of "delta", "keep", "factor", "none")");
  EXPECT_EQ(refusal_of("/measurements", 1), "measurements is 1, expected a list");
  EXPECT_EQ(refusal_of("/measurements/2", 1), "measurements[2] is 1, expected an object");
  EXPECT_EQ(refusal_of("/machine/copy_bytes_per_second", nullptr),
            "machine.copy_bytes_per_second is null, expected a number of at least 0");
  EXPECT_EQ(refusal_of("/measurements/0/fidelity/recall_mean", 1.5),
            "measurements[0].fidelity.recall_mean is 1.5, expected a number from -1 to 1 or null");
  EXPECT_EQ(refusal_of("/measurements/0/length", 1e300),
            "measurements[0].length is 1e+300, expected a whole number from 1 to 2147483647");
  EXPECT_EQ(refusal_of("/measurements/0/batch", 18446744073709551615u),
            "measurements[0].batch is 18446744073709551615, expected a whole number from 1 to 2147483647");
  EXPECT_EQ(refusal_of("/measurements/0/tiled", 1), "measurements[0].tiled is 1, expected true or false");
  EXPECT_EQ(refusal_of("/seed", -1), "seed is -1, expected a whole number of at least 0");
  EXPECT_EQ(refusal_of("/shape/num_kv_heads", 5), "shape.num_query_heads is 32, expected a multiple of num_kv_heads");
  EXPECT_EQ(refusal_of("/arguments/0", 1), "arguments is a list, expected a list of texts");
  EXPECT_EQ(refusal_of("/data/path", nullptr), "data.path is null, expected a text");
}

TEST(KernelReport, RefusesALargeFile) {
  const ScratchFolder folder;
  const std::string path = folder.write("bench.json", "{");
  std::filesystem::resize_file(path, (std::uintmax_t{64} << 20) + 1);
  EXPECT_EQ(message_of<InputError>([&] { read_kernel_report(path); }),
            path + ": has 67108865 bytes, expected a kernel report of 'attest bench kernel' of at most 67108864");
}

TEST(KernelReport, NumbersThatNoAxisShows) {
  for (const char* field : {"floor_microseconds", "median_microseconds", "io_ratio", "bytes"})
    for (const double value : {5e-324, 1e-310, 1e300})
      EXPECT_TRUE(refusal_of(std::string("/measurements/0/") + field, value)
                      .ends_with("expected 0 or a number from 1e-30 to 1e30"))
          << field << ' ' << value;
}

}  // namespace
}  // namespace attest
