// The run over layers, lengths and batches, with a session that measures nothing.
#include "experiments/bench/kernel/kernel_bench.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>

#include "dumps/synthetic/dump.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Keeps a record of its calls.
struct Calls {
  std::vector<std::string> prepared;
  int measured = 0;
  std::function<void(int)> before = [](int) {};  ///< a measurement: the number of those made
};

class FakeSession final : public KernelSession {
 public:
  explicit FakeSession(Calls& calls) : calls_(calls) {}

  KernelMachine machine() const override {
    KernelMachine machine;
    machine.gpu = "fake";
    machine.multiprocessors = 1;
    return machine;
  }
  void generate(const KernelInputs& inputs, std::uint64_t seed) override {
    if (inputs.length > 10000) throw NotMeasurable("does not fit");
    calls_.prepared.push_back("seed " + std::to_string(seed) + ": " + std::to_string(inputs.length));
  }
  void load(const KernelInputs& inputs, const AttentionLayer& layer) override {
    EXPECT_EQ(layer.num_queries(), 1);
    EXPECT_EQ(layer.query_positions[0], layer.num_tokens - 1);
    calls_.prepared.push_back("layer " + std::to_string(layer.layer) + ": " + std::to_string(inputs.length));
  }
  KernelResult measure(const KernelSpec& spec) override {
    if (spec.method == "sdpa_cudnn") throw NotMeasurable("no cuDNN");
    calls_.before(calls_.measured);
    ++calls_.measured;
    KernelResult result;
    result.setting = spec.setting;
    result.microseconds = {1, 2, 3};
    result.median_microseconds = 2;
    return result;
  }

 private:
  Calls& calls_;
};

KernelBenchOptions options() {
  KernelBenchOptions options;
  options.plan = {
      .lengths = {4096, 16384}, .batches = {1}, .deltas = {5}, .keeps = {0.06}, .experiments = {"kernel_latency"}};
  options.seed = 3;
  return options;
}

KernelBenchRun run_to_its_end(const KernelBenchOptions& options, Calls& calls,
                              std::vector<std::string>* notices = nullptr, std::vector<std::size_t>* done = nullptr,
                              const std::atomic<bool>& interrupted = false) {
  KernelBenchObserver observer;
  if (notices != nullptr) observer.notice = [=](const std::string& line) { notices->push_back(line); };
  if (done != nullptr)
    observer.progress = [=](std::size_t finished, std::size_t total) {
      done->push_back(finished);
      done->push_back(total);
    };
  return bench_kernels(
      options, [&] { return std::make_unique<FakeSession>(calls); }, observer, interrupted);
}

KernelReport run(const KernelBenchOptions& options, Calls& calls, std::vector<std::string>* notices = nullptr,
                 std::vector<std::size_t>* done = nullptr) {
  KernelBenchRun run = run_to_its_end(options, calls, notices, done);
  EXPECT_FALSE(run.ended_by);
  return std::move(run.report);
}

std::string synthetic_dump(const ScratchFolder& folder, SyntheticOptions synthetic) {
  const std::string path = folder.file("d.h5");
  synthetic.shape = {.num_query_heads = 4, .num_kv_heads = 2, .head_dim = 16, .value_dim = 16};
  synthetic.num_layers = 3;
  synthetic.num_tokens = 300;
  synthetic.num_queries = 2;
  write_synthetic_dump(synthetic, path, false, 1);
  return path;
}

TEST(KernelBench, GeneratedInputs) {
  Calls calls;
  std::vector<std::string> notices;
  const KernelReport report = run(options(), calls, &notices);
  EXPECT_THAT(calls.prepared, ElementsAre("seed 3: 4096"));
  ASSERT_EQ(report.measurements.size(), 5u);
  EXPECT_EQ(report.machine.gpu, "fake");
  EXPECT_EQ(report.shape.num_query_heads, 32);
  EXPECT_EQ(report.data.source, "generated");
  for (const KernelMeasurement& m : report.measurements) {
    EXPECT_FALSE(m.layer);
    EXPECT_EQ(m.length, 4096);
    EXPECT_EQ(m.median_microseconds, 2);
  }
  ASSERT_EQ(report.left_out.size(), 2u);
  EXPECT_EQ(report.left_out[0].reason, "does not fit (16384 tokens, batch 1)");
  EXPECT_EQ(report.left_out[1].reason, "no cuDNN (4096 tokens, batch 1)");
  EXPECT_THAT(notices, ElementsAre("left out: all: does not fit (16384 tokens, batch 1)",
                                   "left out: sdpa_cudnn: no cuDNN (4096 tokens, batch 1)"));
}

TEST(KernelBench, LayersOfADump) {
  const ScratchFolder folder;
  KernelBenchOptions own = options();
  own.dump = synthetic_dump(folder, {.element_type = ElementType::bfloat16});
  own.plan.lengths = {256, 4096};
  own.layers = {{1, 2}};
  Calls calls;
  std::vector<std::size_t> done;
  const KernelReport report = run(own, calls, nullptr, &done);
  EXPECT_THAT(calls.prepared, ElementsAre("layer 1: 256", "layer 1: 4096", "layer 2: 256", "layer 2: 4096"));
  EXPECT_EQ(report.data.path, own.dump);
  EXPECT_EQ(report.data.xxh64_of_1mib.size(), 16u);
  EXPECT_EQ(report.shape.element_type, "bfloat16");
  EXPECT_EQ(report.shape.num_query_heads, 4);
  int flash = 0;
  for (const KernelMeasurement& m : report.measurements) {
    EXPECT_EQ(m.tiled, m.length == 4096);
    EXPECT_FALSE(m.sample.empty());
    flash += m.method == "sdpa_flash";
  }
  EXPECT_EQ(flash, 2) << "of each length, on the first layer alone";
  EXPECT_EQ(report.measurements.size(), 2u * (5 + 4));
  ASSERT_GE(done.size(), 2u);
  EXPECT_EQ(done[done.size() - 2], done.back()) << "all that was counted is done";
  EXPECT_EQ(report.left_out[0].reason.substr(0, 9), "no cuDNN ");
}

TEST(KernelBench, LayersThatNoKernelComputesAreLeftOut) {
  const ScratchFolder folder;
  KernelBenchOptions own = options();
  Calls calls;
  own.dump = synthetic_dump(folder, {.element_type = ElementType::bfloat16, .sliding_window = 100, .global_every = 3});
  const KernelReport report = run(own, calls);
  int left_out = 0;
  for (const KernelLeftOut& line : report.left_out) left_out += line.reason.find("sliding window") != std::string::npos;
  EXPECT_EQ(left_out, 2);
}

TEST(KernelBench, RefusesADumpWithoutSuchLayers) {
  const ScratchFolder folder;
  KernelBenchOptions own = options();
  Calls calls;
  own.dump = synthetic_dump(folder, {.element_type = ElementType::float32});
  EXPECT_THAT(message_of<InputError>([&] { run(own, calls); }), HasSubstr("its keys are float32"));
  own.samples = {"nobody"};
  EXPECT_THAT(message_of<UsageError>([&] { run(own, calls); }), HasSubstr("nobody"));
  own.dump = folder.file("none.h5");
  EXPECT_THAT(message_of<InputError>([&] { run(own, calls); }), HasSubstr("none.h5"));
  EXPECT_TRUE(calls.prepared.empty());
}

TEST(KernelBench, KeepsWhatWasMeasuredBeforeAnErrorOfTheGpu) {
  KernelBenchOptions own = options();
  own.plan.batches = {1, 2};
  own.plan.lengths = {4096};
  Calls calls;
  calls.before = [](int made) {
    if (made == 6) throw DeviceError("the GPU fell off");
  };
  const KernelBenchRun found = run_to_its_end(own, calls);
  EXPECT_EQ(found.report.measurements.size(), 6u);
  EXPECT_EQ(found.report.machine.gpu, "fake");
  // Two of cuDNN were tried before.
  EXPECT_EQ(found.report.left_out.front().reason, "4 of 12 measurements: the GPU fell off");
  EXPECT_EQ(message_of<DeviceError>([&] { std::rethrow_exception(found.ended_by); }),
            "the GPU fell off; 6 of 12 measurements are reported");

  calls.measured = 6;
  EXPECT_EQ(message_of<DeviceError>([&] { run_to_its_end(own, calls); }), "the GPU fell off") << "nothing to report";
}

TEST(KernelBench, KeepsWhatWasMeasuredBeforeAnInterruption) {
  Calls calls;
  std::atomic<bool> interrupted = false;
  calls.before = [&](int made) { interrupted = made == 2; };
  const KernelBenchRun found = run_to_its_end(options(), calls, nullptr, nullptr, interrupted);
  EXPECT_EQ(found.report.measurements.size(), 3u) << "the one that ran was finished";
  EXPECT_THAT(message_of<Interrupted>([&] { std::rethrow_exception(found.ended_by); }),
              HasSubstr("interrupted; 3 of "));
}

TEST(KernelBench, FailsIfNothingCouldBeMeasured) {
  KernelBenchOptions own = options();
  own.plan.lengths = {20000};
  Calls calls;
  EXPECT_EQ(message_of<DeviceError>([&] { run(own, calls); }),
            "bench kernel: nothing could be measured: does not fit (20000 tokens, batch 1)");
}

}  // namespace
}  // namespace attest
