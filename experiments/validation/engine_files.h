// Certified settings in the terms of inference engines.
#pragma once

#include <string>
#include <string_view>

#include "experiments/validation/judgement.h"
#include "kernels/selectors/options.h"

namespace attest {

/// Before results are computed, throws the UsageError that the function of `option` ("--emit-vllm") would throw
/// whatever the results are. `selector`: null if there are candidates; `per`: JudgementOptions::per.
void check_engine_words(std::string_view option, const SelectorSpec* selector, std::string_view per);

/// Options of TensorRT-LLM with the certified factor. Throws UsageError if the judgement is not of one factor of
/// skip_softmax for the whole model.
std::string trtllm_yaml(const Judgement& judgement);

/// Arguments of vLLM as JSON, which is YAML, too: kv_cache_dtype, and kv_cache_dtype_skip_layers with the layers that
/// stay in 16 bit. Throws UsageError if layers have different formats, or one that vLLM lacks.
std::string vllm_json(const Judgement& judgement);

/// A ModelOpt quantisation config (hf_quant_config.json) of the KV cache alone: a layer that is not named stays in 16
/// bit. Throws UsageError for formats other than fp8_e4m3 and nvfp4, the same for keys and values.
std::string modelopt_json(const Judgement& judgement);

/// What the engine must do besides, for --emit-vllm and --emit-modelopt: the scales with which a format was judged are
/// in no such file. Empty if there is nothing to do.
std::string scales_note(const Judgement& judgement);

}  // namespace attest
