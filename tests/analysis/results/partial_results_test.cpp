// The folder of an unfinished study: loads complete units only, belongs to one study, claims hold between processes.
#include "analysis/results/partial_results.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "analysis/results/layer_results_codec.h"
#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

using Start = PartialResults::Start;
constexpr UnitKey kUnit{.dump = 0, .sample = 0, .layer = 2};
const Study kSmall = small_study();
constexpr const char* kStudy = R"({"selectors": [{"label": "ffd", "bits": 2}], "lambdas": [1]})";

LayerResults unit() { return small_results(small_study(), 0, 0, 2); }

void expect_same(const LayerResults& a, const LayerResults& b) {
  EXPECT_EQ(encode(a, 1), encode(b, 1));
  ASSERT_EQ(a.selectors.size(), 2u);
  EXPECT_EQ(a.selectors[0].metrics[0].values, b.selectors[0].metrics[0].values);
}

TEST(LayerResultsCodec, BringsBackEveryField) {
  LayerResults results = unit();
  results.selectors[1].dense = true;
  results.input_blocks = {{.block = 3, .hash = 0xFEDCBA9876543210}, {.block = 4, .hash = 5}};
  const LayerResults again = decode_layer_results(encode(results, 7), 7).value();
  EXPECT_EQ(again.dump, results.dump);
  EXPECT_EQ(again.sample, results.sample);
  EXPECT_EQ(again.layer, results.layer);
  EXPECT_EQ(again.done, results.done);
  EXPECT_TRUE(again.selectors[1].dense);
  ASSERT_EQ(again.scores.size(), 1u);
  EXPECT_EQ(again.scores[0].name, "lse");
  EXPECT_EQ(again.scores[0].values, results.scores[0].values);
  EXPECT_EQ(again.selectors[0].metrics[1].axes, MetricAxes::query_setting);
  EXPECT_EQ(again.input_blocks, results.input_blocks);
  expect_same(again, results);
}

/// Long arrays are written and read without a copy of the whole.
TEST(LayerResultsCodec, LongArraysAreInPlace) {
  LayerResults results = unit();
  std::vector<float>& values = results.selectors[0].metrics[0].values;
  values.resize(5000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::size_t longest = 0;
  std::string bytes;
  encode(results, 7, [&](std::string_view piece) {
    bytes += piece;
    longest = std::max(longest, piece.size());
  });
  EXPECT_EQ(longest, values.size() * sizeof(float));
  EXPECT_EQ(bytes, encode(results, 7));
  expect_same(decode_layer_results(bytes, 7).value(), results);
}

TEST(LayerResultsCodec, RefusesAnyOtherBytes) {
  const std::string bytes = encode(unit(), 7);
  EXPECT_EQ(decode_layer_results(bytes, 8), std::nullopt) << "of another study";
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_layer_results(bytes.substr(0, size), 7)) << "cut to " << size;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(decode_layer_results(damaged, 7)) << "byte " << i;
  }
}

TEST(PartialResults, KeepUnitsBetweenRuns) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  std::string begun;
  {
    PartialResults partial(path, Start::fresh, kStudy, &kSmall);
    begun = partial.start_time();
    EXPECT_FALSE(partial.load(kUnit));
    partial.store(kUnit, unit());
    partial.store_note("n", "text");
  }
  EXPECT_TRUE(PartialResults::exists(path));
  const PartialResults again(path, Start::resume, kStudy, &kSmall);
  expect_same(again.load(kUnit).value(), unit());
  EXPECT_FALSE(again.load({.dump = 0, .sample = 0, .layer = 5}));
  EXPECT_EQ(PartialResults::unit_files(path), std::set<UnitKey>{kUnit});
  EXPECT_EQ(again.load_note("n"), "text");
  EXPECT_EQ(again.start_time(), begun);
}

TEST(PartialResults, DamagedUnitsCountAsMissing) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults partial(path, Start::fresh, kStudy, &kSmall);
  partial.store(kUnit, unit());
  const std::string file = path + "/unit-0-0-2.bin";
  const std::string whole = bytes_of_file(file);
  for (const std::string& damaged : {std::string(), whole.substr(0, whole.size() / 2), whole + "x"}) {
    folder.write("r.partial/unit-0-0-2.bin", damaged);
    EXPECT_FALSE(partial.load(kUnit)) << damaged.size();
    EXPECT_EQ(partial.state(kUnit), UnitState::missing) << damaged.size();
  }
  partial.store(kUnit, unit());
  EXPECT_TRUE(partial.load(kUnit));
  EXPECT_EQ(partial.state(kUnit), UnitState::computed);
  LayerResults nothing = unit();
  nothing.done = false;
  nothing.scores.clear();
  nothing.selectors.clear();
  partial.store(kUnit, nothing);
  EXPECT_EQ(partial.state(kUnit), UnitState::left_out);
}

TEST(PartialResults, AUnitInThePlaceOfAnotherCountsAsMissing) {
  const ScratchFolder folder;
  PartialResults partial(folder.file("r.partial"), Start::fresh, kStudy, &kSmall);
  partial.store(kUnit, unit());
  const std::string bytes = bytes_of_file(folder.file("r.partial/unit-0-0-2.bin"));
  for (const UnitKey& other : {UnitKey{0, 0, 5}, UnitKey{0, 1, 3}, UnitKey{1, 0, 1}}) {
    folder.write(fmt::format("r.partial/unit-{}-{}-{}.bin", other.dump, other.sample, other.layer), bytes);
    EXPECT_FALSE(partial.load(other)) << other.layer;
    EXPECT_EQ(partial.state(other), UnitState::missing) << other.layer;
  }
  EXPECT_TRUE(partial.load(kUnit));
}

TEST(PartialResults, MetricsThatDoNotFitTheStudyCountAsMissing) {
  const ScratchFolder folder;
  PartialResults partial(folder.file("r.partial"), Start::fresh, kStudy, &kSmall);
  const std::vector<std::function<void(LayerResults&)>> changes{
      [](LayerResults& r) { r.scores[0].name = "/zz"; },
      [](LayerResults& r) { r.scores[0].name = ""; },
      [](LayerResults& r) { r.scores[0].axes = static_cast<MetricAxes>(77); },
      [](LayerResults& r) { r.scores[0].values.pop_back(); },
      [](LayerResults& r) { r.scores.push_back(r.scores[0]); },
      [](LayerResults& r) { r.selectors.pop_back(); },
      [](LayerResults& r) { r.selectors[0].metrics[0].values.push_back(1); },
      [](LayerResults& r) { r.selectors[1].metrics[0].name = "done"; },
      [](LayerResults& r) { r.done = false; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    LayerResults changed = unit();
    changes[i](changed);
    partial.store(kUnit, changed);
    EXPECT_FALSE(partial.load(kUnit)) << "change " << i;
    EXPECT_EQ(partial.state(kUnit), UnitState::missing) << "change " << i;
  }
}

TEST(PartialResults, MetricsOfASelectorsOwnAreKept) {
  const ScratchFolder folder;
  Study study = small_study();
  study.selectors[0].selector = make_selector({"ffd", "ffd", {}});
  PartialResults partial(folder.file("r.partial"), Start::fresh, kStudy, &study);
  LayerResults results = unit();
  const MetricInfo own = study.selectors[0].selector->own_metrics().front();
  const std::size_t settings = has_settings(own.axes) ? study.selectors[0].grid.size() : 1;
  results.selectors[0].metrics.push_back(small_metric(std::string(own.name), own.axes, study, 0, 0, 2, settings, 6));
  partial.store(kUnit, results);
  EXPECT_TRUE(partial.load(kUnit));
  std::swap(results.selectors[0].metrics.back(), results.selectors[1].metrics.back());
  partial.store(kUnit, results);
  EXPECT_FALSE(partial.load(kUnit)) << "of another selector";
}

TEST(PartialResults, OnlyFilesOfPossibleSizesAreRead) {
  const ScratchFolder folder;
  PartialResults partial(folder.file("r.partial"), Start::fresh, kStudy, &kSmall);
  partial.store(kUnit, unit());
  const std::string file = folder.file("r.partial/unit-0-0-2.bin");
  std::filesystem::rename(file, folder.file("elsewhere"));
  std::filesystem::create_symlink(folder.file("elsewhere"), file);
  EXPECT_FALSE(partial.load(kUnit)) << "a link";
  partial.store(kUnit, unit());
  EXPECT_TRUE(partial.load(kUnit));
  EXPECT_FALSE(std::filesystem::is_symlink(file));
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(partial.load(kUnit)) << "a FIFO";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_FALSE(partial.load(kUnit)) << "a folder";
  std::filesystem::remove(file);
  folder.write("r.partial/unit-0-0-2.bin", "x");
  std::filesystem::resize_file(file, std::uint64_t{1} << 40);
  EXPECT_FALSE(partial.load(kUnit)) << "a sparse file";
}

TEST(PartialResults, NothingIsWrittenThroughLinks) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  std::filesystem::create_directory(folder.file("other"));
  std::filesystem::create_symlink(folder.file("other"), path);
  const std::string is_link = "'" + path + "' is a link, expected a folder";
  EXPECT_EQ(message_of<InputError>([&] { PartialResults(path, Start::resume, kStudy, &kSmall); }), is_link);
  EXPECT_EQ(message_of<InputError>([&] { PartialResults::discard(path); }), is_link);
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("other")));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  std::filesystem::create_symlink(folder.file("other/new"), path + "/lock-results");
  EXPECT_EQ(message_of<InputError>([&] { PartialResults(path, Start::resume, kStudy, &kSmall); }),
            "'" + path + "/lock-results' is not a file; start over with --force");
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("other")));
  PartialResults::discard(path);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PartialResults, RefuseAnotherStudy) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  { PartialResults partial(path, Start::fresh, kStudy, &kSmall); }
  EXPECT_EQ(message_of<OutputError>([&] { PartialResults(path, Start::fresh, kStudy, &kSmall); }),
            "'" + path + "' holds an unfinished study; continue it with --resume, or start over with --force");
  EXPECT_EQ(message_of<UsageError>([&] {
              PartialResults(path, Start::resume, R"({"selectors": [{"label": "ffd", "bits": 4}], "lambdas": [1]})",
                             &kSmall);
            }),
            "cannot resume '" + path +
                "': it was started with selector 1, bits = 2, this command has 4; start over with --force instead of "
                "--resume");
  EXPECT_EQ(
      message_of<UsageError>([&] {
        PartialResults(path, Start::resume, R"({"selectors": [{"label": "ffd", "bits": 2}], "lambdas": [1, 2]})",
                       &kSmall);
      }),
      "cannot resume '" + path +
          "': it was started with lambdas = [1], this command has [1,2]; start over with --force instead of --resume");
}

TEST(PartialResults, UnitsWithoutAStudyFileAreRemoved) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  {
    PartialResults partial(path, Start::fresh, kStudy, &kSmall);
    partial.store_note("inputs.json", "{}");
  }
  std::ofstream(path + "/unit-0-0-3.bin") << "of other inputs";
  std::ofstream(path + "/mine.txt") << "kept";
  std::filesystem::remove(path + "/study.json");  // as a process that died while it removed the folder leaves it
  const PartialResults partial(path, Start::resume, kStudy, &kSmall);
  EXPECT_TRUE(PartialResults::unit_files(path).empty());
  EXPECT_EQ(partial.load_note("inputs.json"), std::nullopt);
  EXPECT_TRUE(std::filesystem::exists(path + "/mine.txt"));
}

TEST(PartialResults, DamagedStudyFileIsReported) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  { PartialResults partial(path, Start::fresh, kStudy, &kSmall); }
  const std::string deep(300'000, '[');
  const std::string file = path + "/study.json";
  const auto refused = [&] {
    return message_of<InputError>([&] { PartialResults(path, Start::resume, kStudy, &kSmall); }) ==
           "'" + file + "' is damaged; start over with --force instead of --resume";
  };
  for (const std::string& text :
       {std::string("{"), R"({"begun": "", "study": )" + deep + std::string(300'000, ']') + "}"}) {
    folder.write("r.partial/study.json", text);
    EXPECT_TRUE(refused()) << text.substr(0, 20);
  }
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const auto no_file = [&](const std::string& name) {
    EXPECT_EQ(message_of<InputError>([&] { PartialResults(path, Start::resume, kStudy, &kSmall); }),
              "'" + path + "/" + name + "' is not a file; start over with --force");
    std::filesystem::remove(path + "/" + name);
  };
  no_file("study.json");
  std::filesystem::create_symlink(folder.file("nowhere"), file);
  no_file("study.json");
  std::filesystem::create_directory(path + "/unit-0-0-2.bin");
  no_file("unit-0-0-2.bin");
  ASSERT_EQ(::mkfifo((path + "/note-inputs.json").c_str(), 0600), 0);
  no_file("note-inputs.json");
}

TEST(PartialResults, ResumeWithoutFolderStartsAfresh) {
  const ScratchFolder folder;
  PartialResults partial(folder.file("r.partial"), Start::resume, kStudy, &kSmall);
  EXPECT_TRUE(partial.in_place());
}

TEST(PartialResults, DiscardRemovesOnlyItsOwn) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults partial(path, Start::fresh, kStudy, &kSmall);
  partial.store(kUnit, unit());
  for (const char* left_over : {"r.h5.tmp-0123456789abcdef", "unit-0-0-9.bin.tmp-ffffffffffffffff"})
    folder.write(std::string("r.partial/") + left_over, "of a killed process");
  for (const std::string precious : {"thesis.txt", "thesis.tmp", "thesis.tmp-1.txt"}) {
    folder.write("r.partial/" + precious, "precious");
    EXPECT_EQ(message_of<OutputError>([&] { PartialResults::discard(path); }),
              "'" + path + "' is left unchanged: '" + precious + "' in it does not belong to an unfinished study");
    EXPECT_TRUE(partial.load(kUnit));
    std::filesystem::remove(folder.file("r.partial/" + precious));
  }
  PartialResults::discard(path);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(partial.in_place());
  PartialResults::discard(path);  // no error if there is no folder
}

TEST(PartialResults, DiscardSaysWhyTheStudyFileStays) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial"), file = path + "/study.json";
  std::filesystem::create_directories(file + "/inside");
  EXPECT_EQ(message_of<OutputError>([&] { PartialResults::discard(path); }),
            "cannot remove '" + file + "': Directory not empty");
}

TEST(PartialResults, CannotBeMade) {
  const ScratchFolder folder;
  const std::string path = folder.file("no/such/r.partial");
  EXPECT_TRUE(message_of<OutputError>([&] {
                PartialResults(path, Start::fresh, kStudy, &kSmall);
              }).starts_with("cannot make the folder '" + path + "'"));
}

TEST(PartialResults, OtherContentOfAnInputIsNamed) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  const auto of = [](const char* file, const char* hash) {
    return fmt::format(R"({{"dumps": [{{"path": "{}", "xxh64_of_samples": "{}"}}], "program": "1"}})", file, hash);
  };
  const PartialResults first(path, Start::resume, of("/a/x.h5", "01"));
  EXPECT_NO_THROW(PartialResults(path, Start::resume, of("/b/x.h5", "01"))) << "its name does not matter";
  const std::string refusal = message_of<InputError>([&] { PartialResults(path, Start::resume, of("/b/x.h5", "02")); });
  EXPECT_EQ(refusal,
            fmt::format("cannot resume '{}': {} began the study with another '/b/x.h5' than {} reads, of other "
                        "content; start over with --force instead of --resume",
                        path, first.self(), first.self()));
}

TEST(PartialResults, IsInPlaceAlsoIfTheFileOfThisProcessWasRemoved) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults partial(path, Start::fresh, kStudy, &kSmall);
  const auto remove_processes = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (entry.path().filename().string().starts_with("process-")) std::filesystem::remove(entry.path());
  };
  remove_processes();
  EXPECT_TRUE(partial.in_place());
  EXPECT_TRUE(partial.try_lock(kUnit));
  remove_processes();
  folder.write("r.partial/study.json", "{\"begun\": \"of another study\"}");
  EXPECT_FALSE(partial.in_place());
}

}  // namespace
}  // namespace attest::test
