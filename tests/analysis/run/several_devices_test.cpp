// The results file of a study has the same bits whatever the number of devices that share it.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <utility>

#include "analysis/run/results_assembly.h"
#include "analysis/run/stream_study.h"
#include "analysis/run/unit_queue.h"
#include "dumps/base/input_file.h"
#include "tests/analysis/studies.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

class SeveralDevicesTest : public ::testing::Test {
 protected:
  SeveralDevicesTest() { test::write_small_dump(path_); }

  /// The values of all metrics and the summary, with `devices` layer studies. `late`: of these the last one starts when
  /// another has computed a unit.
  std::pair<std::vector<float>, std::vector<double>> run(std::size_t devices, bool late = false) {
    Study study =
        test::study_of({test::study_selector("ffd", test::parse_selector("ffd:block=8,sub_block=4"), {{5}, {7}}),
                        test::study_selector("exact", test::parse_selector("exact"), {})});
    std::vector<DumpReader> dumps;
    dumps.emplace_back(path_);
    const DumpInfo* infos[] = {&dumps[0].info()};
    const StudyPlan plan = plan_study(infos, study);
    const std::string name = "r" + std::to_string(devices);
    PartialResults partial(folder_.file(name + ".partial"), PartialResults::Start::fresh, "{}", &study);
    ResultsAssembly assembly(study, plan, true);
    assembly.write_to(folder_.file(name), partial.folder());
    std::vector<std::unique_ptr<LayerStudy>> studies;
    std::vector<LayerStudy*> all;
    for (std::size_t i = 0; i < devices; ++i) all.push_back(studies.emplace_back(make_cpu_layer_study(study, 1)).get());
    UnitQueue queue(partial, plan, false);
    const StudyObserver silent{.started = [](const std::string&) {},
                               .progress = [](const StudyProgress&) {},
                               .notice = [](const std::string&) {}};
    std::promise<void> computed;
    std::once_flag once;
    LayerStudy* const last = late ? std::exchange(all.back(), nullptr) : all.back();
    const auto await_device = [&](std::size_t place) {
      if (!late || place + 1 < devices) return;
      EXPECT_EQ(computed.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
      all.back() = last;
    };
    stream_study(study, plan, dumps, all, queue,
                 {.sink =
                      [&](const UnitKey& unit, const LayerResults& found, UnitOrigin) {
                        assembly.add(unit, found);
                        std::call_once(once, [&] { computed.set_value(); });
                      },
                  .await_device = await_device},
                 silent);
    EXPECT_TRUE(assembly.complete());
    assembly.finish("{}");
    std::pair<std::vector<float>, std::vector<double>> found;
    const ResultsFile file(folder_.file(name));
    for (std::size_t sample = 0; sample < file.study().dumps[0].samples.size(); ++sample)
      for (std::size_t selector = 0; selector < 2; ++selector)
        for (const std::string& metric : file.metrics(0, sample, selector)) {
          const MetricArray array = file.read(0, sample, selector, metric).value();
          found.first.insert(found.first.end(), array.values.begin(), array.values.end());
        }
    for (const SummaryRow& row : assembly.summary().rows)
      found.second.insert(found.second.end(), row.values.begin(), row.values.end());
    return found;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("dump.h5");
};

template <class Number>
bool same_bits(const std::vector<Number>& a, const std::vector<Number>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Number)) == 0;
}

TEST_F(SeveralDevicesTest, HaveTheBitsOfOne) {
  const auto [values, summary] = run(1);
  ASSERT_GT(values.size(), 100u);
  for (const std::size_t devices : {2, 3}) {
    const auto [others, other_summary] = run(devices);
    EXPECT_TRUE(same_bits(values, others)) << devices;
    EXPECT_TRUE(same_bits(summary, other_summary)) << devices;
  }
}

TEST_F(SeveralDevicesTest, OneComputesWhileAnotherStarts) { EXPECT_TRUE(same_bits(run(1).first, run(2, true).first)); }

}  // namespace
}  // namespace attest
