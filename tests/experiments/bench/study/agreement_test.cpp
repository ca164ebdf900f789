// Cells of two made results.
#include "experiments/bench/study/agreement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

Study study() {
  Study made;
  made.selectors.emplace_back().label = "mine";
  return made;
}

LayerResults results(std::vector<MetricValues> scores, std::vector<MetricValues> metrics) {
  LayerResults made;
  made.scores = std::move(scores);
  made.selectors.push_back({.metrics = std::move(metrics)});
  return made;
}
MetricValues metric(const std::string& name, std::vector<float> values) {
  return {.name = name, .values = std::move(values)};
}

TEST(Agreement, CountsWhatIsApart) {
  std::vector<float> many(200, 1000.0f), peers = many;
  peers[3] = 1001.9f;  // within a share of 0.002
  peers[7] = 1002.1f;
  const Agreement found =
      agreement_of(study(), results({metric("lse", {NAN, 1})}, {metric("recall", many)}),
                   results({metric("lse", {NAN, 1.0019f})}, {metric("ours_lacks", {5}), metric("recall", peers)}));
  EXPECT_EQ(found.cells, 202);
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.worst, "mine/recall");
  EXPECT_EQ(found.not_compared, 0);
  EXPECT_EQ(text_of(found), "1 of 202 cells compared with LibTorch's are apart by more than 0.002");
}

TEST(Agreement, SaysWhatThePeerLacks) {
  const LayerResults ours =
      results({metric("lse", {1, 2}), metric("entropy", {1})}, {metric("recall", {1, 1}), metric("spearman", {1})});
  const LayerResults peers = results({metric("lse", {1, 2})}, {metric("recall", {1, 1, 1}), metric("entropy", {1})});
  EXPECT_EQ(text_of(agreement_of(study(), ours, peers)),
            "0 of 2 cells compared with LibTorch's are apart by more than 0.002; 4 cells were not compared, as "
            "LibTorch's lack entropy, recall, spearman");
}

TEST(Agreement, RefusesWhatIsApartOrWasNotCompared) {
  const auto message = [](const LayerResults& ours, const LayerResults& peers) {
    return message_of<Error>([&] { agreement_of(study(), ours, peers); });
  };
  const LayerResults ours = results({metric("lse", {1, 2})}, {});
  EXPECT_EQ(message(ours, results({metric("lse", {NAN, 2})}, {})),
            "bench: 1 of 2 cells differ from the LibTorch peer's by more than 0.002 (most in 'scores/lse'), expected "
            "at most 1 %");
  EXPECT_EQ(message(ours, results({}, {})), "bench: no metric can be compared with the LibTorch peer's");
}

}  // namespace
}  // namespace attest
