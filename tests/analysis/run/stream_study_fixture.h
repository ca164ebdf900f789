// A stream of units over a small dump, and a study that says what it was given.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/run/stream_study.h"
#include "analysis/run/unit_queue.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {

/// Returns number, query count and first query value of each layer as a metric, and records the layers.
class EchoStudy : public LayerStudy {
 public:
  LayerResults run(const AttentionLayer& layer) override {
    layers.push_back(layer.layer);
    if (before) before();
    LayerResults results;
    results.layer = layer.layer;
    float first_q = 0;
    convert_to_float(layer.element_type, layer.q.data(), 1, &first_q);
    results.scores = {{"echo",
                       MetricAxes::query_head,
                       {static_cast<float>(layer.layer), static_cast<float>(layer.num_queries()), first_q}}};
    return results;
  }
  std::string device() const override { return "echo"; }

  std::vector<int> layers;
  std::function<void()> before;
};

inline constexpr const char* kStudy = "{}";

inline void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

class StreamStudyTest : public ::testing::Test {
 protected:
  StreamStudyTest() { test::write_small_dump(path_); }

  /// Studies layers 0, 2 and 5 of the first sample and layer 3 of the second.
  void run(std::span<LayerStudy* const> studies, PartialResults& partial, const StreamOptions& options) {
    std::vector<DumpReader> dumps;
    dumps.emplace_back(path_);
    const DumpInfo* infos[] = {&dumps[0].info()};
    Study study = study_;  // a copy, because two concurrent runs both plan
    const StudyPlan plan = plan_study(infos, study);
    UnitQueue queue(partial, plan, study.skip_bad_layers);
    stream_study(study, plan, dumps, studies, queue, options, observer_);
  }
  void run(LayerStudy& layer_study, PartialResults& partial, const StreamOptions& options = {}) {
    LayerStudy* const studies[] = {&layer_study};
    run(studies, partial, options);
  }
  void run_on(std::vector<EchoStudy>& devices, PartialResults& partial, const StreamOptions& options = {}) {
    std::vector<LayerStudy*> all;
    for (EchoStudy& device : devices) all.push_back(&device);
    run(all, partial, options);
  }
  void run(LayerStudy& layer_study, const StreamOptions& options = {}) {
    PartialResults partial(folder_.file("partial"), PartialResults::Start::resume, kStudy);
    run(layer_study, partial, options);
  }

  std::optional<LayerResults> stored(std::size_t sample, int layer, const std::string& name = "partial") const {
    return PartialResults(folder_.file(name), PartialResults::Start::resume, kStudy).load({0, sample, layer});
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("dump.h5");
  Study study_;
  std::vector<StudyProgress> progress_;
  std::vector<std::string> notices_;
  StudyObserver observer_{.started = [](const std::string&) {},
                          .progress = [this](const StudyProgress& p) { progress_.push_back(p); },
                          .notice = [this](const std::string& text) { notices_.push_back(text); }};
};
class BadLayerTest : public StreamStudyTest {
 protected:
  BadLayerTest() {
    const test::Edit edit(path_);
    std::vector<float> k(2 * 40 * 8, 1.0f);
    k[(1 * 40 + 37) * 8 + 5] = std::numeric_limits<float>::quiet_NaN();
    edit.dataset("/samples/first/layers/5/k", H5T_IEEE_F32LE, {2, 40, 8}, k.data());
  }
};

}  // namespace attest
