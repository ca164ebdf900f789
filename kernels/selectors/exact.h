// The selector `exact`, and the exact attention that every selector uses in its dense layers.
#pragma once

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Every token at level 0 with exact reads: the result of `exact`, and of any selector in its dense layers.
void keep_all(const KvHead& head, Selection& out);

/// Defined in exact_cuda.cpp.
std::shared_ptr<const CudaSelector> make_cuda_exact();

}  // namespace attest
