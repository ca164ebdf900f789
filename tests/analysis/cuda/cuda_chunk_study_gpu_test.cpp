// Studying a layer in chunks on the device: the results are bit-identical for every way of cutting the layer.
#include <gtest/gtest.h>

#include <thread>

#include "analysis/cuda/cuda_chunk_study.h"
#include "analysis/cuda/cuda_layer_plan.h"
#include "analysis/metrics/output_fidelity.h"
#include "tests/analysis/studies.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"
#include "tests/near.h"

namespace attest::test {
namespace {

// As in comparison.h: scores are float32 sums on the device and double on the CPU.
constexpr double kTolerance = 2e-4;

/// Rules over tokens, blocks and groups, a selector without a sweep, and imported estimates.
Study some_selectors() {
  const std::vector<Setting> budgets{{64}, {12.5, true}, {3}}, deltas{{1}, {5}, {3}};
  return study_of(
      {study_selector("exact", {}), study_selector("topk", budgets), study_selector("topp:gqa=union", {{0.9}, {0.5}}),
       study_selector("ffd:block=32", deltas), study_selector("skip_softmax:tile=16", deltas),
       study_selector("streaming_llm", budgets), study_selector("sparq:rank=4", budgets),
       study_selector("imported:file=own.h5,dataset=tokens,gqa=union", budgets),
       study_selector("imported:file=own.h5,dataset=blocks,granularity=block,block=16,rule=topp", {{0.9}, {0.5}})});
}

AttentionLayer layer_with_sinks(const Case& c) {
  AttentionLayer layer = make_layer(c);
  for (int h = 0; h < layer.shape.num_query_heads; ++h) layer.sinks.push_back(static_cast<float>(h % 5) * 3 - 4);
  layer.spans = {{layer.num_tokens / 3, layer.num_tokens / 2 + 1}};
  return layer;
}

/// How a layer is cut.
struct Cut {
  std::size_t groups = 1 << 20;  ///< query groups per chunk
  bool by_head = false;          ///< pass the keys and values of one KV head at a time
  bool beside = false;           ///< selectors on streams of their own
};

/// Studies a whole layer. Exceptions of a chunk leave run() at once; the caller waits for the stream.
class ChunkRunner {
 public:
  ChunkRunner(const Study& study, const DeviceLayer& on, Gpu& gpu) : study_(study), on_(on), gpu_(gpu) {
    for (const StudySelector& chosen : study.selectors) selectors_.push_back(chosen.selector->cuda_code());
  }
  DeviceArena& arena() { return arena_; }

  LayerResults run(const Cut& cut) {
    const AttentionShape& shape = on_.layer.shape;
    results_.begin(study_, all_metrics(), on_.layer, gpu_.stream);
    const int at_once = cut.by_head ? 1 : shape.num_kv_heads;
    for (int first = 0; first < shape.num_kv_heads; first += at_once) {
      const DeviceInputs inputs{on_.q,
                                from_head(on_.kv.keys, first, shape.head_dim),
                                from_head(on_.kv.values, first, shape.value_dim),
                                {first, at_once}};
      CudaChunkStudy chunks(
          {study_, selectors_, on_.layer, inputs, uploads_, results_, spans_, weights_, clock_, gpu_.stream});
      const std::vector<QueryGroup> all = query_groups(on_.layer, inputs.heads);
      for (std::size_t i = 0; i < all.size(); i += cut.groups) {
        chunks.enqueue(std::span(all).subspan(i, std::min(cut.groups, all.size() - i)), arena_,
                       cut.beside ? &streams_ : nullptr);
        if (cut.beside) streams_.join(gpu_.stream);
      }
    }
    results_.enqueue_finish(static_cast<int>(on_.layer.num_queries()), shape.num_query_heads, gpu_.stream);
    gpu_.stream.synchronize();
    uploads_.reset();
    return results_.take();
  }

 private:
  static std::vector<DeviceArena> three_arenas() {
    std::vector<DeviceArena> arenas;
    for (int i = 0; i < 3; ++i) arenas.emplace_back(std::size_t{1} << 30);
    return arenas;
  }
  const void* from_head(const void* data, int head, int channels) const {
    const auto bytes = static_cast<std::size_t>(on_.layer.num_tokens * channels) * size_of(on_.layer.element_type);
    return static_cast<const std::byte*>(data) + static_cast<std::size_t>(head) * bytes;
  }

  const Study& study_;
  const DeviceLayer& on_;
  Gpu& gpu_;
  const std::vector<int2> spans_ = disjoint_spans(on_.layer);
  const std::vector<double> weights_ = head_weights(on_.layer.head_gradient, on_.layer.shape.num_query_heads);
  std::vector<std::shared_ptr<const CudaSelector>> selectors_;
  DeviceArena arena_{std::size_t{1} << 30};
  std::vector<DeviceArena> arenas_ = three_arenas();
  CudaSelectorStreams streams_{arenas_};
  KeptUploads kept_;
  Uploads uploads_{&kept_};
  CudaResults results_;
  StageClock clock_;
};

class CudaChunkStudyTest : public OnGpuWith<Case> {};

TEST_P(CudaChunkStudyTest, CutsChangeNoBit) {
  Gpu gpu;
  const Study study = some_selectors();
  const DeviceLayer on(layer_with_sinks(GetParam()), gpu);
  ChunkRunner runner(study, on, gpu);
  const LayerResults whole = runner.run({});
  expect_same_values(whole, runner.run({}), "once more");
  expect_same_values(whole, runner.run({.groups = 1}), "group by group");
  expect_same_values(whole, runner.run({.groups = 5}), "five groups at a time");
  expect_same_values(whole, runner.run({.by_head = true}), "head by head");
  expect_same_values(whole, runner.run({.beside = true}), "on several streams");
  expect_same_values(whole, runner.run({.groups = 5, .beside = true}), "five groups at a time on several streams");
}

TEST_P(CudaChunkStudyTest, ExactScoresAndOutputsAreTheCpus) {
  Gpu gpu;
  const Study study = study_of({study_selector("exact", {}), study_selector("streaming_llm:sink=2", {{40}, {9}})});
  const DeviceLayer on(layer_with_sinks(GetParam()), gpu);
  const LayerResults found = ChunkRunner(study, on, gpu).run({.groups = 3});
  const LayerResults expected = make_cpu_layer_study(study, 2)->run(on.layer);
  const auto expect_near = [](const MetricValues& own, const MetricValues& of_cpu) {
    ASSERT_EQ(own.name, of_cpu.name);
    ASSERT_EQ(own.values.size(), of_cpu.values.size());
    for (std::size_t i = 0; i < own.values.size(); ++i)
      EXPECT_TRUE(near_metric(own.values[i], of_cpu.values[i], kTolerance)) << own.name << ", cell " << i;
  };
  ASSERT_EQ(found.scores.size(), expected.scores.size());
  for (std::size_t m = 0; m < found.scores.size(); ++m) expect_near(found.scores[m], expected.scores[m]);
  for (std::size_t s = 0; s < found.selectors.size(); ++s)
    for (const char* name : {"recall", "recall_layer", "output_error", "lse_error", "mass_recall", "keep_ratio",
                             "io_ratio", "span_keep", "span_mass_kept", "span_lost", "dropped_gap"})
      expect_near(metric(found.selectors[s].metrics, name), metric(expected.selectors[s].metrics, name));
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaChunkStudyTest, testing::ValuesIn(device_cases()), name_of_case);

class CudaChunkStudyMemory : public OnGpu {};

TEST_F(CudaChunkStudyMemory, WhatDoesNotFitMayBeTriedAgain) {
  Gpu gpu;
  const Study study = some_selectors();
  const DeviceLayer on(layer_with_sinks({"", 2, 4, 64, 64, ElementType::bfloat16, {500, 900, 1500, 1999}}), gpu);
  const LayerResults expected = ChunkRunner(study, on, gpu).run({});
  ChunkRunner runner(study, on, gpu);
  runner.arena().set_limit(std::size_t{1} << 18);
  EXPECT_THROW(runner.run({}), DeviceMemoryFull);
  gpu.stream.synchronize();
  runner.arena().set_limit(std::size_t{1} << 30);
  expect_same_values(expected, runner.run({.groups = 2}), "after a failure");
}

}  // namespace
}  // namespace attest::test
