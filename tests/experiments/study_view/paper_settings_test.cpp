// Which settings of a grid are those of the methods' papers, and what is said of a grid without them.
#include "experiments/study_view/paper_settings.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

StudySelector selector_of(const std::string& label, SettingKind kind, std::vector<Setting> grid) {
  std::vector<std::string> labels(grid.size());
  return {.label = label,
          .name = label,
          .options_json = "{}",
          .kind = kind,
          .grid = std::move(grid),
          .setting_labels = std::move(labels)};
}

TEST(PaperSettings, AreThoseOfTheKind) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(shown_settings(selector_of("a", SettingKind::delta, {{4}, {7}, {5}})), (Indices{1, 2}));
  EXPECT_EQ(shown_settings(selector_of("a", SettingKind::budget, {{50}, {50, true}, {1024}})), (Indices{1, 2}));
  EXPECT_EQ(shown_settings(selector_of("a", SettingKind::p, {{0.8}, {0.85}})), (Indices{1}));
  EXPECT_EQ(shown_settings(selector_of("a", SettingKind::factor, {{100}, {1000}})), (Indices{1}));
  EXPECT_EQ(shown_settings(selector_of("a", SettingKind::delta, {{1}, {2}})), (Indices{0, 1})) << "it has none";
}

TEST(PaperSettings, AGridWithoutThemIsNamed) {
  const StudySelector with = selector_of("ffd", SettingKind::delta, {{1}, {5}}),
                      without = selector_of("low", SettingKind::delta, {{1}, {2}}),
                      small = selector_of("quest", SettingKind::budget, {{64}}),
                      none = selector_of("kivi", SettingKind::none, {{}});
  EXPECT_EQ(without_paper_settings({&with, &none}, "x"), "");
  EXPECT_EQ(without_paper_settings({&with, &without, &without}, "all settings are shown"),
            " The grid of low has none of the papers' settings: all settings are shown.");
  EXPECT_EQ(without_paper_settings({&without, &small}, "the first one is shown"),
            " The grids of low, quest have none of the papers' settings: the first one is shown.");
}

}  // namespace
}  // namespace attest
