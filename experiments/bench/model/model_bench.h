// The record of attest bench model: tokens per second of a decoding model on one machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/decode_bench/kernel_record.h"
#include "experiments/study_view/experiment.h"

namespace attest {

inline constexpr std::string_view kModelBenchFormat = "attest-model-bench";
inline constexpr int kModelBenchVersion = 1;

/// A method at one context and batch size. NaN: not measured.
struct ModelPoint {
  std::string method;     ///< "ffd", "sdpa_flash" or "sdpa_cudnn"
  std::string setting{};  ///< "keep", "delta" or "none"
  double value = 0;       ///< of the setting
  std::int64_t context = 0;
  int batch = 1;
  double kept = 1;                                  ///< share of the tokens
  double tokens_per_second = 0, low = 0, high = 0;  ///< of the median step, the longest and the shortest
  double step_ms = 0, attention_share = 0;
  double cache_bytes = 0;
  double over_flash = kNotMeasured, over_cudnn = kNotMeasured;    ///< how many times as fast
  double limit_flash = kNotMeasured, limit_cudnn = kNotMeasured;  ///< 1 / (1 - share + share / speed-up)
  double logits_difference = 0, tolerance = 0;
  std::string left_out = {};  ///< why it was not measured; empty: it was

  bool is_baseline() const { return method != "ffd"; }
  std::string curve_text() const;  ///< "FFD keep 6 %", "SDPA flash"
};

struct ModelBench {
  std::string gpu, model, element_type;
  /// The GPU without its maker; where another bench has the same, with the model, or the file if that is the same, too.
  std::string title{};
  std::string file{};  ///< "b.json (0123456789abcdef)"
  bool random_weights = true;
  int layers = 0, query_heads = 0, kv_heads = 0, head_dim = 0;
  double weight_bytes = 0;
  std::vector<ModelPoint> points{};
  std::vector<ModelPoint> left_points{};  ///< settings of FFD that were not measured where other methods were
  std::vector<std::string> left_out{};    ///< sentences

  std::string source() const;  ///< GPU, model and file, for captions
};

/// Takes the files that say that they are such records out of `benches`. Throws InputError for a file that is neither
/// such a record nor one of kernels.
std::vector<std::string> take_model_benches(std::vector<std::string>& benches);

/// Throws InputError, a sentence with the place, what was expected and what was found, if the file is missing, larger
/// than 64 MiB or not such a record; UsageError if one is named twice.
std::vector<ModelBench> read_model_benches(const std::vector<std::string>& paths);

}  // namespace attest
