// The folder of an unfinished study: loads complete units only, belongs to one study, claims hold between processes.
#include "analysis/results/partial_results.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "analysis/results/layer_results_codec.h"
#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"

namespace attest::testing {
namespace {

using Start = PartialResults::Start;
constexpr UnitKey kUnit{.dump = 0, .sample = 0, .layer = 2};
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

TEST(LayerResultsCodec, RefusesAnyOtherBytes) {
  const std::string bytes = encode(unit(), 7);
  EXPECT_EQ(decode_layer_results(bytes, 8), std::nullopt) << "of another study";
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_layer_results(bytes.substr(0, size), 7)) << "cut to " << size;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(decode_layer_results(damaged, 7)) << "byte " << i;
    EXPECT_EQ(state_of_unit(damaged, 7), UnitState::missing) << "byte " << i;
  }
}

TEST(PartialResults, KeepUnitsBetweenRuns) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  std::string begun;
  {
    PartialResults partial(path, Start::fresh, kStudy);
    begun = partial.start_time();
    EXPECT_FALSE(partial.load(kUnit));
    partial.store(kUnit, unit());
    partial.store_note("n", "text");
  }
  EXPECT_TRUE(PartialResults::exists(path));
  const PartialResults again(path, Start::resume, kStudy);
  expect_same(again.load(kUnit).value(), unit());
  EXPECT_FALSE(again.load({.dump = 0, .sample = 0, .layer = 5}));
  EXPECT_EQ(PartialResults::unit_files(path), std::set<UnitKey>{kUnit});
  EXPECT_EQ(again.load_note("n"), "text");
  EXPECT_EQ(again.start_time(), begun);
}

TEST(PartialResults, DamagedUnitsCountAsMissing) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults partial(path, Start::fresh, kStudy);
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
  partial.store(kUnit, nothing);
  EXPECT_EQ(partial.state(kUnit), UnitState::left_out);
}

TEST(PartialResults, RefuseAnotherStudy) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  { PartialResults partial(path, Start::fresh, kStudy); }
  EXPECT_EQ(message_of<OutputError>([&] { PartialResults(path, Start::fresh, kStudy); }),
            "'" + path + "' holds an unfinished study; continue it with --resume, or start over with --force");
  EXPECT_EQ(message_of<UsageError>([&] {
              PartialResults(path, Start::resume, R"({"selectors": [{"label": "ffd", "bits": 4}], "lambdas": [1]})");
            }),
            "cannot resume '" + path + "': it was started with selectors/0/bits = 2, this command has 4");
  EXPECT_EQ(message_of<UsageError>([&] {
              PartialResults(path, Start::resume, R"({"selectors": [{"label": "ffd", "bits": 2}], "lambdas": [1, 2]})");
            }),
            "cannot resume '" + path + "': it was started with lambdas/1 = absent, this command has 2");
}

TEST(PartialResults, DamagedStudyFileIsReported) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  { PartialResults partial(path, Start::fresh, kStudy); }
  folder.write("r.partial/study.json", "{");
  EXPECT_EQ(message_of<InputError>([&] { PartialResults(path, Start::resume, kStudy); }),
            "'" + path + "/study.json' is damaged; start over with --force");
}

TEST(PartialResults, ResumeWithoutFolderStartsAfresh) {
  const ScratchFolder folder;
  PartialResults partial(folder.file("r.partial"), Start::resume, kStudy);
  EXPECT_TRUE(partial.in_place());
}

TEST(PartialResults, DiscardRemovesOnlyItsOwn) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults partial(path, Start::fresh, kStudy);
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

TEST(PartialResults, CannotBeMade) {
  const ScratchFolder folder;
  const std::string path = folder.file("no/such/r.partial");
  EXPECT_TRUE(message_of<OutputError>([&] {
                PartialResults(path, Start::fresh, kStudy);
              }).starts_with("cannot make the folder '" + path + "'"));
}

TEST(PartialResults, AUnitIsClaimedOnce) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults one(path, Start::resume, kStudy), other(path, Start::resume, kStudy);
  {
    const std::optional<UnitClaim> claim = one.claim(kUnit);
    ASSERT_TRUE(claim);
    EXPECT_FALSE(other.claim(kUnit));
    EXPECT_TRUE(other.claim({.dump = 0, .sample = 1, .layer = 2}));
    EXPECT_TRUE(other.claim_finish());
  }
  EXPECT_TRUE(other.claim(kUnit)) << "given back";
}

TEST(PartialResults, TheClaimsOfAKilledProcessAreFree) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.partial");
  PartialResults own(path, Start::resume, kStudy);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    PartialResults theirs(path, Start::resume, kStudy);
    const std::optional<UnitClaim> claim = theirs.claim(kUnit);
    [[maybe_unused]] const auto written = ::write(ready[1], claim ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(own.claim(kUnit));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(own.claim(kUnit));
}

}  // namespace
}  // namespace attest::testing
