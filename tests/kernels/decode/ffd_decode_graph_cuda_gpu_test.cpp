// FFD's decode in a CUDA graph that is replayed after the cache has changed, against the plain form in double.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/device/multiprocessor.h"
#include "tests/kernels/decode/decode_cases.h"

namespace attest::test {
namespace {

class FfdDecodeInAGraph : public FfdDecode {};

INSTANTIATE_TEST_SUITE_P(Kinds, FfdDecodeInAGraph, decode_kinds(), testing::PrintToStringParamName());

/// A call on a cache, captured.
class CapturedDecode {
 public:
  CapturedDecode(CacheOnGpu& cache, const FfdDecodeOptions& options, Gpu& gpu) : cache_(cache), gpu_(gpu) {
    ATTEST_CUDA(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
    cache.enqueue(options);
    ATTEST_CUDA(cudaStreamEndCapture(gpu.stream, &graph_));
    ATTEST_CUDA(cudaGraphInstantiate(&replay_, graph_, 0));
  }
  CapturedDecode(const CapturedDecode&) = delete;
  CapturedDecode& operator=(const CapturedDecode&) = delete;
  ~CapturedDecode() {
    cudaGraphExecDestroy(replay_);
    cudaGraphDestroy(graph_);
  }

  DecodeResults replay() {
    cache_.clear_results();
    ATTEST_CUDA(cudaGraphLaunch(replay_, gpu_.stream));
    return cache_.results();
  }

 private:
  CacheOnGpu& cache_;
  Gpu& gpu_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t replay_ = nullptr;
};

TEST_P(FfdDecodeInAGraph, WhileTheSequenceGrows) {
  for (FfdDecodePseudoMax pseudo_max : {FfdDecodePseudoMax::thumbnail, FfdDecodePseudoMax::global}) {
    const DecodeProblem problem = problem_of(shape(1, 400), {.pseudo_max = pseudo_max}, {300});
    Gpu gpu;
    CacheOnGpu cache(problem, {255}, gpu);
    CapturedDecode captured(cache, problem.options, gpu);
    for (int length = 255; length < 258; ++length) {
      if (length > 255) cache.append({length - 1});
      DecodeProblem now = problem;
      now.lengths = {length};
      expect_decoded(PlainDecode(now), captured.replay(), tolerance_of(problem.shape));
    }
  }
}

// The kernels for sequences of one length are right for others, too: a graph may have been captured before they came.
TEST_P(FfdDecodeInAGraph, OutlivesEqualLengths) {
  if (GetParam().layout == FfdCacheLayout::row_major) return;
  FfdCacheShape many = shape(2 * num_multiprocessors() - 1, 700, 1);
  many.num_kv_heads = 1;
  for (const FfdCacheShape& shape : {this->shape(4, 700), many})
    for (FfdBalance balance : {FfdBalance::static_shares, FfdBalance::automatic, FfdBalance::balanced}) {
      SCOPED_TRACE(std::to_string(shape.batch) + " sequences, balance " + std::to_string(static_cast<int>(balance)));
      const std::vector<int> lengths(static_cast<std::size_t>(shape.batch), 650);
      const DecodeProblem equal = problem_of(shape, {.sub_block = 32, .balance = balance}, lengths);
      Gpu gpu;
      CacheOnGpu cache(equal, gpu);
      CapturedDecode captured(cache, equal.options, gpu);
      DecodeProblem unequal = equal;
      for (std::size_t b = 0; b < lengths.size(); ++b) unequal.lengths[b] = static_cast<int>(b * 397 % 651);
      cache.cache.build(cache.upload(unequal.k), cache.upload(unequal.v), unequal.stride, unequal.lengths.data(),
                        gpu.stream);
      expect_decoded(PlainDecode(unequal), captured.replay(), tolerance_of(shape));
    }
}

}  // namespace
}  // namespace attest::test
