// The recommendation file: certified settings, read back by selectors through their option settings_file, and by
// engines.
#pragma once

#include <string>

#include "dumps/base/json.h"
#include "experiments/validation/judgement.h"

namespace attest {

/// What is guaranteed, with its evidence: {sentence, kind, targets, confidence, max_violating, n, k, p_value, ...}.
Json guarantee_json(const Judgement& judgement);

/// A setting as JSON: a number, or "12.5%", "inf", "dense".
Json setting_json(const Judgement& judgement, std::size_t setting);

/// [{path, xxh64_of_1MiB}] of the results.
Json results_json(const Judgement& judgement);

/// {name, label, options}
Json selector_json(const Judgement& judgement);

/// The file (format: README.md, "Recommendations"). Of a certified judgement only.
Json recommendation_json(const Judgement& judgement, const std::string& program);

/// Options of TensorRT-LLM with the certified factor. Throws UsageError if the judgement is not of one factor of
/// skip_softmax for the whole model.
std::string trtllm_yaml(const Judgement& judgement);

}  // namespace attest
