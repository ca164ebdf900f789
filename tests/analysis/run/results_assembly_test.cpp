// The summary and the results file of units that come in different orders.
#include "analysis/run/results_assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "dumps/base/parallel_for.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

class ResultsAssemblyTest : public ::testing::Test {
 protected:
  ResultsAssemblyTest() {
    test::each_unit(study_, [&](int dump, int sample, int layer) {
      plan_.units.push_back({static_cast<std::size_t>(dump), static_cast<std::size_t>(sample), layer});
    });
  }

  LayerResults results_of(const UnitKey& unit) const {
    LayerResults results =
        test::small_results(study_, static_cast<int>(unit.dump), static_cast<int>(unit.sample), unit.layer);
    // Values whose sum depends on the order: a float64 sum of them rounds.
    for (SelectorLayerResults& selector : results.selectors)
      for (float& value : selector.metrics[0].values) value = value / 3 * (unit.layer % 2 == 0 ? 1.0f : 1e-6f);
    return results;
  }

  /// The summary of all units in that order; the file is `name`.
  Summary assemble(const std::vector<UnitKey>& order, const std::string& name) {
    ResultsAssembly assembly(study_, plan_, true);
    assembly.write_to(folder_.file(name), "");
    for (const UnitKey& unit : order) {
      EXPECT_FALSE(assembly.complete());
      assembly.add(unit, results_of(unit));
    }
    EXPECT_TRUE(assembly.complete());
    assembly.finish("{}");
    return assembly.summary();
  }

  ScratchFolder folder_;
  const Study study_ = test::small_study();
  StudyPlan plan_;
};

std::vector<std::uint64_t> bits_of(const Summary& summary) {
  std::vector<std::uint64_t> bits;
  for (const SummaryRow& row : summary.rows)
    for (const double value : row.values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  return bits;
}

TEST_F(ResultsAssemblyTest, TheOrderOfUnitsChangesNoBitOfTheSummary) {
  const Summary expected = assemble(plan_.units, "r.h5");
  EXPECT_EQ(bits_of(summarize(ResultsFile(folder_.file("r.h5")), true)), bits_of(expected)) << "read from the file";
  std::vector<UnitKey> order = plan_.units;
  while (std::ranges::next_permutation(order).found) {
    const Summary summary = assemble(order, "other.h5");
    ASSERT_EQ(bits_of(summary), bits_of(expected));
    EXPECT_EQ(summary.dense_layers, expected.dense_layers);
  }
  const ResultsFile a(folder_.file("r.h5")), b(folder_.file("other.h5"));
  EXPECT_EQ(a.read(0, 0, 0, "recall", ReadCells::all)->values, b.read(0, 0, 0, "recall", ReadCells::all)->values);
}

TEST_F(ResultsAssemblyTest, UnitsThatWereLeftOutAreListedInTheOrderOfThePlan) {
  ResultsAssembly assembly(study_, plan_, true);
  for (auto unit = plan_.units.rbegin(); unit != plan_.units.rend(); ++unit) {
    LayerResults results = results_of(*unit);
    if (unit->dump == 0 && unit->layer != 2) results.done = false;
    assembly.add(*unit, results);
  }
  EXPECT_EQ(assembly.left_out(), (std::vector<UnitKey>{{0, 0, 0}, {0, 0, 5}, {0, 1, 3}}));
}

TEST_F(ResultsAssemblyTest, SeveralThreadsMayAdd) {
  const Summary expected = assemble(plan_.units, "r.h5");
  for (int round = 0; round < 20; ++round) {
    ResultsAssembly assembly(study_, plan_, true);
    assembly.write_to(folder_.file("t.h5"), "");
    parallel_for(4, plan_.units.size(), [&](int, std::size_t i) {
      const UnitKey& unit = plan_.units[plan_.units.size() - 1 - i];
      assembly.add(unit, results_of(unit));
    });
    EXPECT_TRUE(assembly.complete());
    assembly.finish("{}");
    EXPECT_EQ(bits_of(assembly.summary()), bits_of(expected));
    EXPECT_EQ(bits_of(summarize(ResultsFile(folder_.file("t.h5")), true)), bits_of(expected)) << "read from the file";
  }
}

}  // namespace
}  // namespace attest
