// The verdict on planted results: fixed sequence, offenders, groups, units.
#include "analysis/validation/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/validation/unit_validation.h"
#include "dumps/base/error.h"
#include "tests/analysis/validation/made_results.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using test::CellPlace;
using test::MadeStudy;
using ::testing::HasSubstr;

/// Settings 3, 5, 7. `violating[s]` of `prompts` prompts have one cell of 0.5 at setting s.
MadeStudy planted(std::size_t prompts, std::array<std::size_t, 3> violating) {
  MadeStudy made;
  made.prompts = test::made_prompts(prompts);
  made.metrics = {{"recall",
                   [=](const CellPlace& at) {
                     return at.prompt < violating[at.setting] && at.layer == 1 && at.query == 1 && at.head == 2 ? 0.5F
                                                                                                                : 1.F;
                   }},
                  {"io_ratio", [](const CellPlace& at) { return 0.1F + 0.2F * static_cast<float>(at.setting); }}};
  return made;
}

class Verdicts : public ::testing::Test {
 protected:
  const PromptSet& open(const MadeStudy& made) {
    write_made(folder_.file("r.h5"), made);
    open_.emplace(std::vector<std::string>{folder_.file("r.h5")});
    return open_->set;
  }
  Validation judged(const MadeStudy& made, std::optional<std::size_t> setting = {}) {
    ValidationRequest request{.targets = test::targets_of({"recall.min>=0.9"}), .guarantee = {}};
    request.setting = setting;
    return validate(open(made), request);
  }
  ScratchFolder folder_;
  std::optional<test::OpenSet> open_;
};

TEST_F(Verdicts, TheFixedSequenceEndsAtTheFirstThatFails) {
  const Validation all = judged(planted(29, {0, 0, 0}));
  EXPECT_EQ(all.certainty, Certainty::certified);
  EXPECT_EQ(all.about().setting, 0u);
  EXPECT_FALSE(all.stopped);
  const Validation middle = judged(planted(29, {1, 0, 0}));
  EXPECT_EQ(middle.about().setting, 1u);
  EXPECT_EQ(middle.in_the_way().setting, 0u);
  // The smallest would pass, but the one before it does not.
  const Validation hole = judged(planted(29, {0, 1, 0}));
  EXPECT_EQ(hole.settings[2].evidence.certainty, Certainty::not_tested) << "29 of 29 meet the target there";
  EXPECT_EQ(hole.about().setting, 2u);
  EXPECT_EQ(hole.in_the_way().setting, 1u);
  EXPECT_EQ(hole.prompts_to_decide.has_value(), true);
  const Validation none = judged(planted(29, {0, 0, 1}));
  EXPECT_EQ(none.certainty, Certainty::undecided);
  EXPECT_EQ(judged(planted(29, {0, 0, 29})).certainty, Certainty::refuted);
  EXPECT_EQ(judged(planted(29, {0, 29, 29}), 0).certainty, Certainty::certified)
      << "a setting of its own is no sequence";
}

TEST_F(Verdicts, OffendersAreTheCellsOfTheSettingInTheWay) {
  const Validation verdict = judged(planted(40, {3, 1, 0}));
  EXPECT_EQ(verdict.about().setting, 2u);
  ASSERT_EQ(verdict.offenders.count, 1) << "at setting 5";
  const Offender& cell = verdict.offenders.worst[0];
  EXPECT_EQ(cell.prompt, 0u);
  EXPECT_EQ(cell.layer, 1);
  EXPECT_EQ(cell.head, 2);
  EXPECT_EQ(cell.query_position, 999);
  EXPECT_EQ(cell.value, 0.5);
  EXPECT_NEAR(cell.badness, 5, 1e-6);
  EXPECT_EQ(cell.setting, 1u);
  EXPECT_EQ(cell.enough, 2u);
}

TEST_F(Verdicts, OffendersAreSortedAndCounted) {
  MadeStudy made = planted(3, {0, 0, 0});
  made.metrics[0].value = [](const CellPlace& at) { return static_cast<float>(test::noise(3, at)); };
  const PromptSet& set = open(made);
  const std::vector<Target> targets = test::targets_of({"recall>=0.9"});
  const std::vector<Miss> misses = {{0, 0}, {2, 0}};
  std::vector<Offender> plain;
  for (const std::size_t p : {0, 2})
    for (const int layer : {0, 1})
      for (std::int64_t n = 0; n < 2; ++n)
        for (std::int64_t h = 0; h < 4; ++h)
          if (const auto x = static_cast<double>(made.metrics[0].value({p, layer, n, h, 1})); x < 0.9) {
            Offender one{.prompt = p,
                         .target = 0,
                         .layer = layer,
                         .query_position = 998 + n,
                         .head = static_cast<int>(h),
                         .value = x};
            for (const std::size_t s : {2, 1, 0})
              if (made.metrics[0].value({p, layer, n, h, s}) >= 0.9F) one.enough = s;
            plain.push_back(one);
          }
  std::ranges::sort(plain, {}, &Offender::value);
  for (const std::size_t maximum : {1u, 5u, 1000u}) {
    const Offenders found = find_offenders(set, targets, misses, same_setting(set, 1), maximum);
    EXPECT_EQ(found.count, static_cast<std::int64_t>(plain.size()));
    ASSERT_EQ(found.worst.size(), std::min<std::size_t>(maximum, plain.size()));
    for (std::size_t i = 0; i < found.worst.size(); ++i) {
      EXPECT_EQ(found.worst[i].value, plain[i].value);
      EXPECT_EQ(found.worst[i].prompt, plain[i].prompt);
      EXPECT_EQ(found.worst[i].layer, plain[i].layer);
      EXPECT_EQ(found.worst[i].query_position, plain[i].query_position);
      EXPECT_EQ(found.worst[i].head, plain[i].head);
      EXPECT_EQ(found.worst[i].enough, plain[i].enough);
    }
  }
}

/// Cells below the value of a mean that its prompt reaches are not in the way.
TEST_F(Verdicts, OffendersAreOfTargetsThatTheirPromptMisses) {
  MadeStudy made = planted(30, {0, 0, 0});
  made.metrics[0].value = [](const CellPlace& at) { return at.head == 0 ? 0.8F : 1.F; };
  made.metrics.push_back({"lse_error", [](const CellPlace& at) { return at.head == 1 ? 1.F : 0.F; }});
  ValidationRequest request{.targets = test::targets_of({"recall>=0.9", "lse_error.max<=0.1"}), .guarantee = {}};
  const Validation verdict = validate(open(made), request);
  EXPECT_EQ(verdict.certainty, Certainty::refuted);
  EXPECT_EQ(verdict.offenders.count, 30 * 2 * 2);
  for (const Offender& cell : verdict.offenders.worst) EXPECT_EQ(cell.target, 1u);
}

TEST_F(Verdicts, GroupsByTaskAndLength) {
  MadeStudy made = planted(4, {2, 2, 2});
  for (std::size_t p = 0; p < 4; ++p) {
    made.prompts[p].task = p % 2 == 0 ? "b" : "a";
    made.prompts[p].num_tokens = std::array{512, 530, 4098, 900}[p];
  }
  // Two tokens of an answer make no prompt longer. Other lengths: the position of the query is no longer that of
  // planted().
  const Validation verdict = judged(made);
  ASSERT_EQ(verdict.by_task.size(), 2u);
  EXPECT_EQ(verdict.by_task[0].name, "a");
  EXPECT_EQ(verdict.by_task[0].prompts, 2);
  EXPECT_EQ(verdict.by_task[0].violations, 1);
  ASSERT_EQ(verdict.by_length.size(), 3u);
  EXPECT_EQ(verdict.by_length[0].name, "up to 512");
  EXPECT_EQ(verdict.by_length[1].name, "up to 1K");
  EXPECT_EQ(verdict.by_length[1].prompts, 2);
  EXPECT_EQ(verdict.by_length[1].violations, 1);
  EXPECT_EQ(verdict.by_length[2].name, "up to 4K");
}

TEST_F(Verdicts, ATargetThatNoPromptHas) {
  ValidationRequest request{.targets = test::targets_of({"lse_error<=0.1"}), .guarantee = {}};
  const PromptSet& set = open(planted(3, {0, 0, 0}));
  EXPECT_THAT(message_of<InputError>([&] { validate(set, request); }),
              HasSubstr("no prompt has a number for the target"));
}

/// KV head 1 of layer 1 needs setting 5, all others pass at 3.
TEST_F(Verdicts, UnitsFindTheHeadThatNeedsMore) {
  MadeStudy made = planted(60, {60, 0, 0});
  const PromptSet& set = open(made);
  ValidationRequest request{.targets = test::targets_of({"recall.min>=0.9"}), .guarantee = {}};
  EXPECT_EQ(validate(set, request).about().setting, 1u);
  const UnitValidation heads = validate_units(set, request, {.kind = UnitKind::kv_head});
  EXPECT_EQ(heads.certainty, Certainty::certified);
  EXPECT_EQ(heads.choosing.size(), 30u);
  EXPECT_EQ(heads.certifying.size(), 30u);
  EXPECT_EQ(heads.members[*heads.passed].assignment, (Assignment{0, 0, 0, 1}));
  EXPECT_NEAR(heads.members[*heads.passed].io, 0.15, 1e-6);
  const UnitValidation layers = validate_units(set, request, {.kind = UnitKind::layer});
  EXPECT_EQ(layers.members[*layers.passed].assignment, (Assignment{0, 1}));
  // The next member lets the head fail on every prompt.
  ASSERT_TRUE(heads.stopped);
  EXPECT_EQ(heads.members[*heads.stopped].evidence.violations, 30);
  EXPECT_EQ(heads.offenders.count, 30);
  // 15 % of the bytes are enough for the same assignment, 14 % are not.
  UnitRequest budget{.kind = UnitKind::kv_head, .io_budget = 0.1501};
  EXPECT_EQ(validate_units(set, request, budget).members[0].assignment, (Assignment{0, 0, 0, 1}));
  budget.io_budget = 0.14;
  const UnitValidation little = validate_units(set, request, budget);
  EXPECT_EQ(little.members[0].assignment, (Assignment{0, 0, 0, 0}));
  EXPECT_EQ(little.certainty, Certainty::refuted);
  budget.io_budget = 0.05;
  EXPECT_THAT(message_of<UsageError>([&] { validate_units(set, request, budget); }), HasSubstr("5% is below 10%"));
}

}  // namespace
}  // namespace attest
