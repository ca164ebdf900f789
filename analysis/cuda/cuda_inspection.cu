// A pass over values, and XXH64 (its specification: https://github.com/Cyan4973/xxHash) with four threads a block: one
// for each accumulator.
#include <algorithm>
#include <type_traits>

#include "analysis/cuda/cuda_inspection.h"
#include "kernels/device/cuda_check.h"
#include "kernels/device/multiprocessor.h"

namespace attest {
namespace {

constexpr int kCheckThreads = 512;

/// The bits of the exponent in each element of a 32-bit word.
constexpr std::uint32_t exponent_bits(ElementType type) {
  return type == ElementType::float32 ? 0x7F800000u : type == ElementType::bfloat16 ? 0x7F807F80u : 0x7C007C00u;
}

/// `word`, with zero in place of each element whose exponent bits are all set.
template <bool kTwo>
__device__ std::uint32_t finite_word(std::uint32_t word, std::uint32_t exponent) {
  if constexpr (!kTwo) return (word & exponent) == exponent ? 0 : word;
  if ((word & exponent & 0xFFFFu) == (exponent & 0xFFFFu)) word &= 0xFFFF0000u;
  if ((word & exponent & 0xFFFF0000u) == (exponent & 0xFFFF0000u)) word &= 0xFFFFu;
  return word;
}

/// `kTwo`: words hold two elements of 16 bits. Elements before the first whole uint4 and after the last have a thread
/// each.
template <bool kTwo>
__global__ void __launch_bounds__(kCheckThreads)
    check_kernel(std::byte* data, std::size_t bytes, std::uint32_t exponent, int* bad) {
  using Element = std::conditional_t<kTwo, std::uint16_t, std::uint32_t>;
  const std::size_t before = min(bytes, (16 - reinterpret_cast<std::uintptr_t>(data) % 16) % 16);
  const std::size_t whole = (bytes - before) / sizeof(uint4), after = bytes - before - whole * sizeof(uint4);
  const std::size_t thread = blockIdx.x * static_cast<std::size_t>(kCheckThreads) + threadIdx.x;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kCheckThreads;
  bool found = false;
  auto* const words = reinterpret_cast<uint4*>(data + before);
  for (std::size_t i = thread; i < whole; i += stride) {
    const uint4 read = words[i];
    const uint4 kept{finite_word<kTwo>(read.x, exponent), finite_word<kTwo>(read.y, exponent),
                     finite_word<kTwo>(read.z, exponent), finite_word<kTwo>(read.w, exponent)};
    if (kept.x == read.x && kept.y == read.y && kept.z == read.z && kept.w == read.w) continue;
    words[i] = kept;
    found = true;
  }
  const std::size_t at_edges = (before + after) / sizeof(Element);
  if (thread < at_edges) {
    auto* const first = reinterpret_cast<Element*>(data);
    Element& element =
        first[thread < before / sizeof(Element) ? thread : thread + whole * sizeof(uint4) / sizeof(Element)];
    if (finite_word<false>(element, exponent & (kTwo ? 0xFFFFu : 0xFFFFFFFFu)) != element) {
      element = 0;
      found = true;
    }
  }
  if (found) *bad = 1;
}

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu, kPrime3 = 0x165667B19E3779F9u,
                        kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr int kLanes = 4, kWarp = 32, kHashedByWarp = kWarp / kLanes;
constexpr int kAhead = 32;  // words of a lane that are on their way
constexpr int kStripes = static_cast<int>(kFileBlock / (kLanes * sizeof(std::uint64_t)));
static_assert(kStripes % kAhead == 0);

__device__ std::uint64_t rotated(std::uint64_t value, int bits) { return value << bits | value >> (64 - bits); }
__device__ std::uint64_t mixed(std::uint64_t accumulator, std::uint64_t word) {
  return rotated(accumulator + word * kPrime2, 31) * kPrime1;
}

/// Of a block whose accumulators are those of lanes 0 to 3.
__device__ std::uint64_t digest(const std::uint64_t (&accumulators)[kLanes]) {
  constexpr int kTurns[kLanes] = {1, 7, 12, 18};
  std::uint64_t hash = 0;
  for (int i = 0; i < kLanes; ++i) hash += rotated(accumulators[i], kTurns[i]);
  for (const std::uint64_t accumulator : accumulators) hash = (hash ^ mixed(0, accumulator)) * kPrime1 + kPrime4;
  hash += kFileBlock;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

/// The chain of an accumulator takes longer than its memory accesses, as long as these run ahead.
__global__ void __launch_bounds__(kWarp)
    hash_kernel(const std::byte* const* blocks, int num_blocks, std::uint64_t* hashes) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, first_lane = static_cast<int>(threadIdx.x) - lane;
  const int block = static_cast<int>(blockIdx.x) * kHashedByWarp + first_lane / kLanes;
  const auto* word = reinterpret_cast<const std::uint64_t*>(blocks[min(block, num_blocks - 1)]) + lane;
  std::uint64_t accumulator = lane == 0 ? kPrime1 + kPrime2 : lane == 1 ? kPrime2 : lane == 2 ? 0 : 0 - kPrime1;
  std::uint64_t next[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) next[i] = word[i * kLanes];
  for (int stripe = kAhead; stripe <= kStripes; stripe += kAhead) {
    std::uint64_t now[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) now[i] = next[i];
    word += kAhead * kLanes;
    if (stripe < kStripes) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) next[i] = word[i * kLanes];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) accumulator = mixed(accumulator, now[i]);
  }
  std::uint64_t all[kLanes];
  for (int i = 0; i < kLanes; ++i) all[i] = __shfl_sync(0xFFFFFFFFu, accumulator, first_lane + i);
  if (lane == 0 && block < num_blocks) hashes[block] = digest(all);
}

}  // namespace

void CudaInspection::begin(ElementType type, std::size_t num_blocks) {
  wait();
  type_ = type;
  num_blocks_ = num_blocks;
  memory_.reserve((1 + 2 * num_blocks) * sizeof(std::uint64_t));
  *bad() = 0;
}

void CudaInspection::check(std::byte* data, std::size_t bytes, cudaStream_t stream) {
  constexpr std::size_t kOfBlock = std::size_t{kCheckThreads} * sizeof(uint4);
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::size_t>(bytes / kOfBlock, 1, 4 * static_cast<std::size_t>(num_multiprocessors())));
  const auto kernel = type_ == ElementType::float32 ? check_kernel<false> : check_kernel<true>;
  kernel<<<blocks, kCheckThreads, 0, stream>>>(data, bytes, exponent_bits(type_), bad());
  ATTEST_CUDA_LAUNCHED(check_kernel);
  done_.record(stream);
}

void CudaInspection::hash(std::span<const std::byte* const> blocks, cudaStream_t stream) {
  if (blocks.empty()) return;
  std::ranges::copy(blocks, places());
  hash_kernel<<<static_cast<unsigned>((blocks.size() + kHashedByWarp - 1) / kHashedByWarp), kWarp, 0, stream>>>(
      places(), static_cast<int>(blocks.size()), hashes());
  ATTEST_CUDA_LAUNCHED(hash_kernel);
  done_.record(stream);
}

StoreFindings CudaInspection::findings() {
  wait();
  return {.finite = *bad() == 0, .hashes = {hashes(), hashes() + num_blocks_}};
}

}  // namespace attest
