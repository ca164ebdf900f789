// Bytes that a stage reads or writes at least, from the sizes of a chunk.
#include "analysis/metrics/rows_cuda.h"

namespace attest {
namespace {

double token_bytes(const CudaChunk& chunk, int channels) {
  double tokens = 0;
  for (const KeyOrigin& origin : chunk.origins) tokens += origin.length;
  return tokens * channels * static_cast<double>(size_of(chunk.kv.type));
}

}  // namespace

double row_tokens(const CudaChunk& chunk) {
  double sum = 0;
  for (int visible : chunk.visible) sum += visible;
  return sum;
}
double key_bytes(const CudaChunk& chunk) { return token_bytes(chunk, chunk.kv.head_dim); }
double value_bytes(const CudaChunk& chunk) { return token_bytes(chunk, chunk.kv.value_dim); }

}  // namespace attest
