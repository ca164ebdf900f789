// The list of selectors that have device code: a maker each, in the selector's .cu file.
#pragma once

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"

namespace attest {

/// Every token at level 0 with exact reads: also any selector in its dense layers. (exact.cu)
void cuda_keep_all(const CudaChunk& chunk, CudaSelection& out);

// Options are read again from those of the CPU's selector, which has checked them.
std::unique_ptr<CudaSelector> make_cuda_exact(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_ffd(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_quest(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_kivi(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_twilight(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_streaming_llm(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_topk(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_topp(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_topdelta(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_sparq(OptionReader& reader);
std::unique_ptr<CudaSelector> make_cuda_double_sparsity(OptionReader& reader, const Selector& learner);
std::unique_ptr<CudaSelector> make_cuda_sale(OptionReader& reader);

}  // namespace attest
