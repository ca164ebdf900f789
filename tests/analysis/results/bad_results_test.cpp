// Each kind of malformed results file is refused with its error message.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "analysis/results/results_file.h"
#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

/// The error message for a good file after `change`, without the file's name.
std::string complaint(const std::function<void(const Edit&)>& change) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  {
    const Edit edit(path);
    change(edit);
  }
  return refusal_of_file<InputError>(path, [&] { ResultsFile{path}; });
}

constexpr const char* kSample = "/dumps/0/samples/s";

TEST(BadResults, NotAResultsFile) {
  EXPECT_EQ(complaint([](const Edit& e) { e.remove_attribute("/", "format"); }),
            "/: attribute 'format' is missing, expected a string");
  EXPECT_EQ(complaint([](const Edit& e) { e.text("/", "format", "attention-dump"); }),
            "/: attribute 'format' is 'attention-dump', expected 'attention-study' (this is a dump, for `attest run`)");
  EXPECT_EQ(complaint([](const Edit& e) { e.integer("/", "format_version", 2); }),
            "/: attribute 'format_version' is 2, expected an integer from 1 to 1");
  EXPECT_EQ(complaint([](const Edit& e) { e.remove_attribute("/", "manifest"); }),
            "/: attribute 'manifest' is missing, expected a string");
  const ScratchFolder folder;
  const std::string path = folder.write("r.h5", "not HDF5");
  EXPECT_EQ(message_of<InputError>([&] { ResultsFile{path}; }),
            path + ": is not an HDF5 file, it has no HDF5 signature");
  EXPECT_NE(message_of<InputError>([&] { ResultsFile{folder.file("missing.h5")}; }), "");
}

TEST(BadResults, PartsAreMissing) {
  EXPECT_EQ(complaint([](const Edit& e) { e.remove("/dumps"); }), "/: 'dumps' is missing");
  EXPECT_EQ(complaint([](const Edit& e) { e.remove("/dumps/0"); }), "/dumps: '0' is missing");
  EXPECT_EQ(complaint([](const Edit& e) { e.remove(std::string(kSample) + "/scores"); }),
            "/dumps/0/samples/s: 'scores' is missing");
  EXPECT_EQ(complaint([](const Edit& e) { e.remove(std::string(kSample) + "/zeta/done"); }),
            "/dumps/0/samples/s/zeta: 'done' is missing");
  EXPECT_EQ(complaint([](const Edit& e) { e.remove_attribute("/dumps/1", "num_query_heads"); }),
            "/dumps/1: attribute 'num_query_heads' is missing, expected an integer from 1 to 2147483647");
}

TEST(BadResults, ShapesDisagree) {
  EXPECT_EQ(complaint([](const Edit& e) {
              e.zeros(std::string(kSample) + "/zeta/recall", H5T_IEEE_F32LE, {3, 2, 4, 2});
            }),
            "/dumps/0/samples/s/zeta/recall: has the shape [3, 2, 4, 2], expected [3, 2, 4, 3] "
            "(layer, query, head, setting)");
  EXPECT_EQ(complaint([](const Edit& e) {
              e.zeros(std::string(kSample) + "/scores/lse", H5T_IEEE_F32LE, {3, 2});
            }),
            "/dumps/0/samples/s/scores/lse: has the shape [3, 2], expected [3, 2, 4] (layer, query, head)");
  EXPECT_EQ(complaint([](const Edit& e) { e.zeros(std::string(kSample) + "/zeta/done", H5T_STD_U8LE, {2}); }),
            "/dumps/0/samples/s/zeta/done: has the shape [2], expected [3] (layers)");
  EXPECT_EQ(complaint([](const Edit& e) {
              e.integers(std::string(kSample) + "/layers", {3}, {0, 5, 2});
            }),
            "/dumps/0/samples/s/layers: [2] is 2, expected ascending numbers from 0 to 5");
  EXPECT_EQ(complaint([](const Edit& e) {
              e.integers(std::string(kSample) + "/query_positions", {2}, {17, 40});
            }),
            "/dumps/0/samples/s/query_positions: [1] is 40, expected ascending numbers from 0 to 39");
}

TEST(BadResults, KvHeadsThatDoNotDivideTheQueryHeads) {
  for (const int heads : {3, 8, 2147483647})
    EXPECT_EQ(complaint([&](const Edit& e) { e.integer("/dumps/0", "num_kv_heads", heads); }),
              fmt::format("/dumps/0: attribute 'num_kv_heads' is {}, expected a divisor of 'num_query_heads', "
                          "which is 4",
                          heads));
}

TEST(BadResults, SpanTokens) {
  const std::string zeta = std::string(kSample) + "/zeta";
  EXPECT_EQ(complaint([&](const Edit& e) { e.remove(zeta + "/span_tokens"); }),
            "/dumps/0/samples/s/zeta/span_token_heads: has the shape [3, 2, 3, 3], expected [3, 2, 3, 0] "
            "(layer, query, setting, token)");
  EXPECT_EQ(complaint([&](const Edit& e) {
              e.integers(zeta + "/span_tokens", {3}, {3, 4, 40});
            }),
            "/dumps/0/samples/s/zeta/span_tokens: [2] is 40, expected ascending numbers from 0 to 39");
  EXPECT_EQ(complaint([&](const Edit& e) {
              e.integers(zeta + "/span_tokens", {3}, {3, 4, 19});
            }),
            "/dumps/0/samples/s/alpha=1: its span_tokens are not those of the sample's other selectors");
}

/// Figures take options and settings as they are: a JSON object, and numbers that an axis can show.
TEST(BadResults, OptionsAndSettingsThatNoSelectorHas) {
  const std::string zeta = std::string(kSample) + "/zeta";
  for (const char* options : {"[]", "5", "null", "", "{"})
    EXPECT_EQ(complaint([&](const Edit& e) { e.text(zeta, "options", options); }),
              zeta + ": attribute 'options' is '" + options + "', expected a JSON object");
  for (const double setting : {1e300, 1e-310, std::nan("")}) {
    const double settings[] = {1, setting, 3};
    EXPECT_EQ(complaint([&](const Edit& e) { e.dataset(zeta + "/settings", H5T_NATIVE_DOUBLE, {3}, settings); }),
              fmt::format("{}/settings: [1] is {}, expected 0 or a number from 1e-100 to 1e+100", zeta, setting));
  }
}

constexpr const char* kRecall = "/dumps/0/samples/s/zeta/recall";
constexpr const char* kLabels = "DIMENSION_LABELS";

TEST(BadResults, AxesThatNoMetricHas) {
  const auto labelled = [](const std::vector<std::string>& labels) {
    return complaint([&](const Edit& e) { e.texts(kRecall, kLabels, labels); });
  };
  const auto sentence = [](const std::string& labels) {
    return std::string(kRecall) + ": its axes are labelled '" + labels + "', expected 'layer, query, head, setting'";
  };
  EXPECT_EQ(labelled({"layer", "head", "query", "setting"}), sentence("layer, head, query, setting"));
  EXPECT_EQ(labelled({"layer", "query", "head"}), sentence("layer, query, head")) << "of another metric";
  EXPECT_EQ(labelled({"", "", "", ""}), sentence(", , , "));
  EXPECT_EQ(labelled({"layer\n"}), sentence(R"(layer\x0a)")) << "nothing of the file reaches a terminal as it is";
  EXPECT_EQ(labelled(std::vector<std::string>(33, "layer")),
            std::string(kRecall) + ": attribute 'DIMENSION_LABELS' is not a list of at most 32 strings");
  EXPECT_EQ(complaint([](const Edit& e) { e.integer(kRecall, kLabels, 4); }),
            std::string(kRecall) + ": attribute 'DIMENSION_LABELS' is not a list of at most 32 strings");
}

// Without labels, the axes of an unknown metric are derived from its rank.
TEST(BadResults, UnknownMetricsWithoutLabels) {
  const std::string metric = std::string(kSample) + "/zeta/unheard_of";
  EXPECT_EQ(complaint([&](const Edit& e) {
              e.zeros(metric, H5T_IEEE_F32LE, {3, 2, 3});
            }),
            metric + ": has the shape [3, 2, 3], expected [3, 2, 4] (layer, query, head)");
  EXPECT_EQ(complaint([&](const Edit& e) {
              e.zeros(metric, H5T_IEEE_F32LE, {3, 2, 4, 2});
            }),
            metric + ": has the shape [3, 2, 4, 2], expected [3, 2, 4, 3] (layer, query, head, setting)")
      << "lambdas need labels";
}

TEST(BadResults, ElementsOfAnotherType) {
  EXPECT_EQ(complaint([](const Edit& e) {
              e.zeros(std::string(kSample) + "/scores/lse", H5T_IEEE_F64LE, {3, 2, 4});
            }),
            "/dumps/0/samples/s/scores/lse: has elements of type little-endian float of 64 bits (11 of exponent, 52 of "
            "mantissa), expected little-endian float16, bfloat16 or float32");
}

/// The message of reading `metric` of the first selector when one of its cells holds `value`.
std::string complaint_about(const std::string& metric, float value) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  {
    const Edit edit(path);
    std::vector<float> values(3 * 2 * 4 * 3, 0.5f);
    values[7] = value;
    edit.dataset(std::string(kSample) + "/zeta/" + metric, H5T_IEEE_F32LE, {3, 2, 4, 3}, values.data());
  }
  const ResultsFile file(path);
  EXPECT_EQ(file.read(0, 0, 0, metric, ReadCells::all)->values.size(), 72u) << "a check sees every cell";
  const std::string message = message_of<InputError>([&] { file.read(0, 0, 0, metric); });
  return message.substr(message.find("]") + 2);
}

TEST(BadResults, CellsThatTheirMetricDoesNotAllow) {
  EXPECT_EQ(complaint_about("io_ratio", -5), "is -5, expected at least 0");
  EXPECT_EQ(complaint_about("io_ratio", INFINITY), "is inf, expected at least 0");
  EXPECT_EQ(complaint_about("recall", 1.5f), "is 1.5, expected -1 to 1");
  EXPECT_EQ(complaint_about("block_keep_ratio", -0.5f), "is -0.5, expected 0 to 1") << "a metric of ffd alone";
}

TEST(BadResults, SamplesDisagreeOnSelectors) {
  EXPECT_EQ(
      complaint([](const Edit& e) { e.remove("/dumps/1/samples/s/zeta"); }),
      "sample 's' and selector 'alpha=1': not the same selectors, settings and lambdas as in the first sample of the "
      "file");
  EXPECT_EQ(complaint([](const Edit& e) { e.text("/dumps/0/samples/t/zeta", "selector", "quest"); }),
            "sample 't' and selector 'zeta': not the same selectors, settings and lambdas as in the first sample of "
            "the file");
}

TEST(BadResults, LinksOutOfTheFile) {
  const std::string message =
      complaint([](const Edit& e) { e.external_link("other.h5", "/x", std::string(kSample) + "/zeta/extra"); });
  EXPECT_NE(message.find("another file"), std::string::npos) << message;
}

TEST(BadResults, EveryTruncationIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  const std::string whole = bytes_of_file(path);
  for (std::size_t size = 0; size < whole.size(); size += whole.size() / 23) {
    folder.write("cut.h5", whole.substr(0, size));
    EXPECT_THROW(ResultsFile{folder.file("cut.h5")}, InputError) << size;
  }
}

TEST(BadResults, CompressedFilesOfOthersAreRead) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  write_small_study(path);
  const std::vector<float> before = ResultsFile(path).read(0, 0, 0, "recall", ReadCells::all)->values;
  {
    const Edit edit(path);
    const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t chunk[] = {2, 1, 4, 2};
    done(H5Pset_chunk(properties.get(), 4, chunk));
    done(H5Pset_shuffle(properties.get()));
    done(H5Pset_deflate(properties.get(), 6));
    edit.dataset(std::string(kSample) + "/zeta/recall", H5T_IEEE_F32LE, {3, 2, 4, 3}, before.data(), properties.get());
  }
  EXPECT_EQ(ResultsFile(path).read(0, 0, 0, "recall", ReadCells::all)->values, before);
}

}  // namespace
}  // namespace attest::test
