// The text and JSON output of `attest inspect`.
#include "dumps/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class InspectTest : public ::testing::Test {
 protected:
  /// Overwrites one float32 element of layer 5 of the first sample.
  void set(const std::string& tensor, std::array<hsize_t, 3> index, float value) const {
    const Edit edit(path_);
    const Handle data = edit.open("/samples/first/layers/5/" + tensor);
    const Handle space = own(H5Dget_space(data.get()));
    done(H5Sselect_elements(space.get(), H5S_SELECT_SET, 1, index.data()));
    const Handle one = own(H5Screate(H5S_SCALAR));
    done(H5Dwrite(data.get(), H5T_NATIVE_FLOAT, one.get(), space.get(), H5P_DEFAULT, &value));
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("dump.h5");
};

TEST(RangesTest, JoinsNeighbours) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({7}), "7");
  EXPECT_EQ(ranges_text({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(ranges_text({0, 4, 8, 9, 10}), "0, 4, 8-10");
  EXPECT_EQ(ranges_text({1, 3, 5, 7}, 2), "1, 3, ... (4 in all)");
  EXPECT_EQ(ranges_text({1, 3}, 2), "1, 3");
}

TEST_F(InspectTest, TellsAllThatADumpSays) {
  write_small_dump(path_);
  const std::string text = summary_text(DumpReader(path_));
  EXPECT_THAT(text, HasSubstr("test/tiny, 6 layers\n"));
  EXPECT_THAT(text, HasSubstr("6 query heads, 2 KV heads (groups of 3), head_dim 8, value_dim 5\n"));
  EXPECT_THAT(text, HasSubstr("0.3\n"));
  EXPECT_THAT(text, HasSubstr("soft-cap     50\n"));
  EXPECT_THAT(text, HasSubstr(R"({"theta": 10000})"));
  EXPECT_THAT(text, HasSubstr("2025-01-02T03:04:05Z"));
  EXPECT_THAT(text, HasSubstr("first   ruler/niah  40      38      3        0, 17, 39     0, 2, 5  "
                              "bfloat16 (layers 0), float16 (layers 2), float32 (layers 5)  "));
  EXPECT_THAT(text, HasSubstr("first: spans [3, 9) needle, [5, 30) answer\n"));
  EXPECT_THAT(text, HasSubstr("first: sliding window 16 (layers 2), none (layers 0, 5)\n"));
  EXPECT_THAT(text, HasSubstr("first: has token ids\n"));
  EXPECT_THAT(text, HasSubstr("first: has attention mass (layers 0), none (layers 2, 5)\n"));
  EXPECT_THAT(text, HasSubstr("  engine       engine 1.2\n  KV cache     k=q8_0\n"));
  EXPECT_THAT(text, HasSubstr("first: has attention outputs (layers 2, 5), none (layers 0)\n"));
  EXPECT_THAT(text, Not(HasSubstr("second: ")));
}

TEST_F(InspectTest, SaysWhenTheScaleIsTheUsualOne) {
  write_small_dump(path_);
  Edit(path_).remove_attribute("/", "softmax_scale");
  EXPECT_THAT(summary_text(DumpReader(path_)), HasSubstr("0.3535534 = 1/sqrt(head_dim)\n"));
}

TEST_F(InspectTest, ClipsLongTexts) {
  write_small_dump(path_);
  std::string rope(239, 'x');
  for (int i = 0; i < 100; ++i) rope += "\u00e9";  // two bytes each; byte 240 falls between the two
  Edit(path_).text("/", "rope", rope);
  const DumpReader dump(path_);
  EXPECT_THAT(summary_text(dump), HasSubstr(std::string(239, 'x') + " ... (439 bytes in all)\n"));
  EXPECT_EQ(summary_json(dump)["rope"], rope);
}

TEST_F(InspectTest, CountsTheHeadsThatItLeavesOut) {
  write_small_dump(path_);
  const DumpReader dump(path_);
  DumpCheck check = check_dump(dump);
  for (const auto& [left_out, text] : {std::pair(1, "k: 1 more head\n"), std::pair(2, "k: 2 more heads\n")}) {
    check.layers[0].check.k.num_left_out = static_cast<std::size_t>(left_out);
    EXPECT_THAT(check_text(dump, check), HasSubstr(text));
  }
}

TEST_F(InspectTest, EscapesControlCharacters) {
  write_small_dump(path_);
  Edit(path_).text("/samples/first", "task", "\x1b[2Jgone\nsecond line");
  EXPECT_THAT(summary_text(DumpReader(path_)),
              AllOf(HasSubstr("\\x1b[2Jgone\\x0asecond line"), Not(HasSubstr("\x1b"))));
}

TEST_F(InspectTest, TellsProgramsTheSame) {
  write_small_dump(path_, {.gzip_level = 1});
  const auto json = summary_json(DumpReader(path_));
  EXPECT_EQ(json["format"], "attention-dump");
  EXPECT_EQ(json["path"], path_);
  EXPECT_EQ(json["num_query_heads"], 6);
  EXPECT_EQ(json["value_dim"], 5);
  EXPECT_EQ(json["softmax_scale"], 0.3);
  ASSERT_EQ(json["samples"].size(), 2u);
  const auto& sample = json["samples"][0];
  EXPECT_EQ(sample["query_positions"], (std::vector<int>{0, 17, 39}));
  EXPECT_EQ(sample["prompt_length"], 38);
  EXPECT_EQ(sample["spans"][1]["begin"], 5);
  EXPECT_EQ(sample["spans"][1]["end"], 30);
  EXPECT_EQ(sample["spans"][1]["label"], "answer");
  EXPECT_EQ(sample["layers"][1]["layer"], 2);
  EXPECT_EQ(sample["layers"][1]["element_type"], "float16");
  EXPECT_EQ(sample["layers"][1]["sliding_window"], 16);
  EXPECT_EQ(sample["layers"][1]["storage"], "gzip");
  EXPECT_EQ(sample["layers"][1]["value_bytes"], 2 * (3 * 6 * 8 + 2 * 40 * 8 + 2 * 40 * 5));
  EXPECT_TRUE(sample["layers"][0]["sliding_window"].is_null());
  EXPECT_TRUE(json["samples"][1]["prompt_length"].is_null());
}

TEST_F(InspectTest, PassesACleanDump) {
  write_small_dump(path_);
  const DumpReader dump(path_);
  std::vector<std::pair<std::size_t, std::size_t>> progress;
  const DumpCheck check =
      check_dump(dump, [&](std::size_t done, std::size_t total) { progress.emplace_back(done, total); });
  EXPECT_THAT(progress, ElementsAre(Pair(1, 4), Pair(2, 4), Pair(3, 4), Pair(4, 4)));
  ASSERT_EQ(check.layers.size(), 4u);
  EXPECT_EQ(check.layers[3].sample, 1u);
  EXPECT_EQ(check.layers[3].check.layer, 3);
  EXPECT_EQ(check.num_bad_layers(), 0);
  EXPECT_EQ(verdict(dump, check), "");
  EXPECT_THAT(check_text(dump, check), HasSubstr("none of 4 layers hold NaN or infinity"));
  EXPECT_EQ(check_json(dump, check)["bad_layers"], 0);
}

TEST_F(InspectTest, NamesSampleLayerHeadAndToken) {
  write_small_dump(path_);
  set("k", {1, 31, 4}, std::numeric_limits<float>::quiet_NaN());
  set("k", {1, 30, 2}, std::numeric_limits<float>::infinity());
  set("v", {0, 2, 1}, 1000);
  const DumpReader dump(path_);
  const DumpCheck check = check_dump(dump);
  EXPECT_EQ(verdict(dump, check), path_ +
                                      ": /samples/first: 1 of 4 layers of the dump hold NaN or infinity, expected "
                                      "finite values; layer 5, k, head 1: NaN and infinity, first at token 30");
  const std::string text = check_text(dump, check);
  EXPECT_THAT(text, HasSubstr("first, layer 5, k, head 1: 1 NaN, 1 infinite, the first at token 30\n"));
  EXPECT_THAT(text, HasSubstr("1000"));
  EXPECT_THAT(text, HasSubstr("1 of 4 layers hold NaN or infinity"));
  const auto json = check_json(dump, check);
  EXPECT_EQ(json["bad_layers"], 1);
  const auto& layer = json["layers"][2];
  EXPECT_EQ(layer["sample"], "first");
  EXPECT_EQ(layer["layer"], 5);
  EXPECT_EQ(layer["finite"], false);
  EXPECT_EQ(layer["v"]["maximum"], 1000);
  EXPECT_EQ(layer["k"]["findings"][0]["head"], 1);
  EXPECT_EQ(layer["k"]["findings"][0]["num_nan"], 1);
  EXPECT_EQ(layer["k"]["findings"][0]["first_token"], 30);
}

TEST_F(InspectTest, LooksAtEveryArrayOfALayer) {
  const std::string layer = "/samples/first/layers/5/";
  const auto found = [&] { return verdict(DumpReader(path_), check_dump(DumpReader(path_))); };
  write_small_dump(path_);
  std::vector<float> mass(6 * 40, 1);
  Edit(path_).dataset(layer + "attention_mass", H5T_NATIVE_FLOAT, {6, 40}, mass.data());
  Edit(path_).zeros(layer + "cache_scales", H5T_IEEE_F32LE, {2});
  std::vector<std::uint16_t> gradient(2 * 3 * 6 * 5);  // float16 [A, N, Hq, Dv]
  const std::vector<double> scales{0.5, 1};
  const auto write_gradient = [&] {
    const Edit edit(path_);
    edit.dataset(layer + "output_gradient", float_type(5, 10, 15).get(), {2, 3, 6, 5}, gradient.data());
    edit.attribute(layer + "output_gradient", "scales", H5T_NATIVE_DOUBLE, scales.data(), {2});
  };
  write_gradient();
  EXPECT_EQ(found(), "");
  mass[3 * 40 + 31] = std::numeric_limits<float>::infinity();
  Edit(path_).dataset(layer + "attention_mass", H5T_NATIVE_FLOAT, {6, 40}, mass.data());
  EXPECT_THAT(found(), HasSubstr("layer 5, attention_mass, head 3: infinity, first at token 31"));
  gradient[((1 * 3 + 2) * 6 + 4) * 5 + 3] = 0x7E00;  // the second scale, the query at 39, head 4
  write_gradient();
  EXPECT_THAT(found(), HasSubstr("layer 5, output_gradient, head 4: NaN, first at token 39"));
  const float bad_scales[] = {1, std::numeric_limits<float>::quiet_NaN()};
  Edit(path_).dataset(layer + "cache_scales", H5T_NATIVE_FLOAT, {2}, bad_scales);
  EXPECT_THAT(found(), HasSubstr("layer 5, cache_scales, entry 1: NaN"));
  Edit(path_).integers("/samples/first/tokens", {40}, std::vector<std::int64_t>(40, std::int64_t{1} << 40));
  EXPECT_THROW(found(), InputError);
}

TEST_F(InspectTest, VerifiesThatValuesAreInTheKeys) {
  write_small_dump(path_);
  Edit(path_).integer("/", "values_in_keys", 1);
  const DumpReader dump(path_);
  EXPECT_THAT(summary_text(dump), HasSubstr("head_dim 8, value_dim 5: the first channels of the keys\n"));
  EXPECT_EQ(summary_json(dump)["values_in_keys"], 1);
  const DumpCheck check = check_dump(dump);
  EXPECT_EQ(check.num_bad_layers(), 4);
  EXPECT_EQ(verdict(dump, check),
            path_ +
                ": /samples/first: 4 of 4 layers of the dump hold NaN, infinity or values that are not in the keys, "
                "expected finite values that the keys hold; layer 0, v, head 0: is not the first channels of k "
                "(values_in_keys), first at token 0");
  EXPECT_THAT(
      check_text(dump, check),
      HasSubstr("first, layer 2, v, head 0: is not the first channels of k (values_in_keys), first at token 0\n"));
  EXPECT_EQ(check_json(dump, check)["layers"][1]["value_not_in_key"]["token"], 0);
}

TEST_F(InspectTest, ReportsHeadsOfZeros) {
  write_small_dump(path_);
  Edit(path_).zeros("/samples/first/layers/5/v", H5T_IEEE_F32LE, {2, 40, 5});
  const DumpReader dump(path_);
  const DumpCheck check = check_dump(dump);
  EXPECT_EQ(check.num_bad_layers(), 0);
  EXPECT_THAT(check_text(dump, check), HasSubstr("first, layer 5, v, head 1: every value is zero\n"));
  EXPECT_EQ(check_json(dump, check)["layers"][2]["v"]["findings"].size(), 2u);
}

}  // namespace
}  // namespace attest::test
