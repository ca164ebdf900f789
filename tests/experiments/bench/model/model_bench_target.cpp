// Records of benches of a model, in JSON.
#include <cmath>

#include "experiments/bench/model/model_bench.h"
#ifdef ATTEST_FUZZ_FIGURES
#include "experiments/bench/model/throughput.h"
#endif
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/json_mutation.h"

namespace attest::fuzz {
namespace {

constexpr const char* kRecord = R"({"format": "attest-model-bench", "format_version": 1,
 "machine": {"gpu": "NVIDIA H200"}, "model": {"name": "m", "element_type": "bfloat16", "random_weights": true,
 "layers": 32, "num_query_heads": 32, "num_kv_heads": 8, "head_dim": 128, "weight_bytes": 16060522496},
 "measurements": [
 {"method": "sdpa_flash", "context": 4096, "batch": 1, "setting": {"kind": "none", "value": 0}, "kept": 1,
  "tokens_per_second": 100, "tokens_per_second_low": 99, "tokens_per_second_high": 101, "step_milliseconds": 10,
  "attention_share": 0.5, "cache_bytes": 536870912, "over_flash": 1, "limit_flash": 1, "over_cudnn": null,
  "limit_cudnn": null, "check": {"logits_difference": 0.01, "tolerance": 0.03}},
 {"method": "ffd", "context": 8192, "batch": 1, "setting": {"kind": "keep", "value": 0.06}, "kept": 0.07,
  "tokens_per_second": 150, "tokens_per_second_low": 149, "tokens_per_second_high": 151, "step_milliseconds": 6.7,
  "attention_share": 0.2, "cache_bytes": 436870912, "over_flash": 1.5, "limit_flash": 1.6, "over_cudnn": 1.4,
  "limit_cudnn": 1.5, "check": {"logits_difference": 0.02, "tolerance": 0.03}}],
 "left_out": [{"method": "all", "context": 131072, "batch": 8, "reason": "needs more"},
 {"method": "ffd", "setting": {"kind": "delta", "value": 5}, "context": 8192, "batch": 1, "reason": "no memory"}]})";

class ModelBenchTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_json(parse_json(kRecord), random); }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("bench.json", input);
    return outcome_of(path, [&] {
      std::vector<std::string> benches{path};
      require(take_model_benches(benches).size() + benches.size() == 1, "a record that is of neither kind");
      for (const ModelBench& bench : read_model_benches({path})) {
        for (const ModelPoint& point : bench.points) {
          require(point.context > 0 && point.batch > 0, "a measurement of nothing");
          require(point.tokens_per_second > 0 && std::isfinite(point.tokens_per_second), "a speed that is none");
          require(point.kept >= 0 && point.kept <= 1, "a share that is none");
          require(!point.curve_text().empty(), "a curve without a name");
        }
        require(bench.title.size() <= bench.gpu.size() && !bench.source().empty(), "a record without a name");
#ifdef ATTEST_FUZZ_FIGURES
        require(!throughput_of(bench, ExperimentOptions()).tables.empty(), "no table");
#endif
      }
    });
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

const TargetInfo kModelBenchTarget{"model_bench", ".json", 500,
                                   [] { return std::unique_ptr<FuzzTarget>(new ModelBenchTarget); }};

}  // namespace attest::fuzz
