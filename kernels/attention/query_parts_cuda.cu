// Gathers the queries in row order and splits them into bfloat16 parts. One thread per row and eight channels.
#include "kernels/attention/query_parts_cuda.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/octet.cuh"

namespace attest {
namespace {

constexpr int kQueryPartsThreads = 256;

__global__ void query_parts_kernel(DeviceRows rows, ElementType type, const void* q, int head_dim, int num_parts,
                                   std::uint16_t* parts, float* values) {
  const int padded = padded_channels(head_dim), octets = padded / kOctet;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kQueryPartsThreads + threadIdx.x;
  const int row = static_cast<int>(index / octets), channel = static_cast<int>(index % octets) * kOctet;
  if (row >= rows.num_rows) return;
  float x[kOctet];
  load_octet(type, q, static_cast<std::int64_t>(rows.cell[row]) * head_dim + channel, head_dim - channel, head_dim, x);
  const std::int64_t at = static_cast<std::int64_t>(row) * padded + channel;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) values[at + i] = x[i];
  for (int part = 0; part < num_parts; ++part)
    *reinterpret_cast<uint4*>(parts + static_cast<std::int64_t>(part) * rows.num_rows * padded + at) =
        split_leading_bf16(x);
}

}  // namespace

QueryParts cuda_query_parts(const DeviceRows& rows, ElementType type, const void* q, int head_dim, DeviceArena& arena,
                            cudaStream_t stream) {
  const int num_parts = parts_of(type), padded = padded_channels(head_dim);
  const std::size_t elements = static_cast<std::size_t>(rows.num_rows) * static_cast<std::size_t>(padded);
  auto* parts = arena.take<std::uint16_t>(elements * static_cast<std::size_t>(num_parts));
  auto* values = arena.take<float>(elements);
  const std::int64_t threads = static_cast<std::int64_t>(rows.num_rows) * (padded / kOctet);
  query_parts_kernel<<<static_cast<unsigned>((threads + kQueryPartsThreads - 1) / kQueryPartsThreads),
                       kQueryPartsThreads, 0, stream>>>(rows, type, q, head_dim, num_parts, parts, values);
  ATTEST_CUDA_LAUNCHED(query_parts_kernel);
  return {parts, values, num_parts, rows.num_rows};
}

}  // namespace attest
