// Runs every KV head of every sequence through the selector on the device, as the study of a layer does; where all is
// kept and there is one query, attend_dense_cuda.h has a shorter way.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/cuda/cuda_layer_chunk.h"
#include "analysis/torch_ops/attend.h"
#include "analysis/torch_ops/attend_cuda.h"
#include "analysis/torch_ops/attend_dense_cuda.h"
#include "dumps/base/error.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/rank/segments_cuda.h"
#include "kernels/rank/sort_descending_cuda.h"
#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/selection_outputs_cuda.h"

namespace attest {
namespace {

constexpr int kThreads = 256;
constexpr int kCounted = 8;                                  // levels per load
constexpr std::size_t kScratchBytes = std::size_t{2} << 30;  // unless one group of rows needs more
constexpr std::size_t kSparedBytes = std::size_t{64} << 20;  // for CUDA, which loads a kernel when it first runs

/// Block (x, y) counts the tokens of tile x that any row of group y keeps.
__global__ void __launch_bounds__(kThreads)
    kept_tokens_kernel(DeviceRows rows, const Level* levels, int num_query_heads, unsigned long long* kept) {
  __shared__ int shared[32];
  const int row = static_cast<int>(blockIdx.y) * rows.group, visible = rows.visible[row];
  const int first = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * kCounted;
  unsigned keeps = 0;  // a bit per token
  for (int h = 0; h < rows.group && first < visible; ++h) {
    const uint4 eight = *reinterpret_cast<const uint4*>(levels + (row + h) * rows.stride + first);
    const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < kCounted; ++i) keeps |= ((words[i / 2] >> (i % 2 * 16) & 0xFFFFu) == 0 ? 1u : 0u) << i;
  }
  const int own = min(max(visible - first, 0), kCounted);
  const int count = block_reduce(__popc(static_cast<int>(keeps & ((1u << own) - 1))), shared, Plus{});
  if (threadIdx.x != 0 || count == 0) return;
  const int query = rows.cell[row] / num_query_heads, head = rows.cell[row] % num_query_heads;
  atomicAdd(kept + static_cast<std::int64_t>(query) * (num_query_heads / rows.group) + head / rows.group,
            static_cast<unsigned long long>(count));
}

/// Where every row keeps all that it sees.
__global__ void all_visible_kernel(DeviceRows rows, int num_query_heads, unsigned long long* kept) {
  const int row = (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * rows.group;
  if (row >= rows.num_rows) return;
  const int query = rows.cell[row] / num_query_heads, head = rows.cell[row] % num_query_heads;
  kept[static_cast<std::int64_t>(query) * (num_query_heads / rows.group) + head / rows.group] = rows.visible[row];
}

__device__ void store(float* to, float x) { *to = x; }
__device__ void store(__half* to, float x) { *to = __float2half_rn(x); }
__device__ void store(__nv_bfloat16* to, float x) { *to = __float2bfloat16_rn(x); }

template <class T>
__global__ void __launch_bounds__(kThreads)
    place_outputs_kernel(DeviceRows rows, DeviceOutputs outputs, T* out, float* lse) {
  const std::int64_t row = blockIdx.x, cell = rows.cell[row];
  const int dim = outputs.value_dim;
  for (int i = threadIdx.x; i < dim; i += kThreads) store(out + cell * dim + i, outputs.output[row * dim + i]);
  if (threadIdx.x == 0) lse[cell] = static_cast<float>(outputs.lse[row]);
}

/// Scratch memory of a device. Every call has finished with it when it returns.
struct Workspace {
  std::mutex mutex;
  DeviceArena arena{kScratchBytes, kSparedBytes};
  Uploads uploads;
  DeviceBuffer amax;               ///< of a sequence's keys, then of its values: float [2, KV heads]
  DeviceBuffer overflow;           ///< OverflowKey [batch]
  PageLockedBuffer overflow_read;  ///< the same on the host
  PageLockedBuffer flag = PageLockedBuffer(sizeof(int));
};

Workspace& workspace_of(int device) {
  static std::mutex mutex;
  // Never destroyed: at the end of the program the device may be gone before it.
  static auto& all = *new std::map<int, std::unique_ptr<Workspace>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Workspace>& own = all[device];
  if (!own) own = std::make_unique<Workspace>();
  return *own;
}

class CudaAttend {
 public:
  CudaAttend(const CudaAttendCall& call, const CudaSelector& code, Workspace& workspace)
      : call_(call),
        code_(code),
        w_(workspace),
        stream_(static_cast<cudaStream_t>(call.stream)),
        grids_(layer_grids(call.layer, *call.selector, {&call.setting, 1})),
        at_once_(groups_at_once(call.layer, kScratchBytes / kBytesPerElement)) {
    w_.uploads.reset();
    w_.arena.set_limit(kScratchBytes);
    const std::size_t bytes = static_cast<std::size_t>(call.batch) * sizeof(OverflowKey);
    w_.overflow.reserve(bytes);
    w_.overflow_read.reserve(bytes);
    ATTEST_CUDA(cudaMemsetAsync(w_.overflow.data(), 0xFF, bytes, stream_));  // kNoOverflow
    ATTEST_CUDA(cudaMemsetAsync(call.kept, 0,
                                static_cast<std::size_t>(call.batch * call.layer.num_queries()) *
                                    static_cast<std::size_t>(call.layer.shape.num_kv_heads) * 8,
                                stream_));
  }

  /// Whatever was enqueued still reads the scratch memory.
  ~CudaAttend() { ATTEST_CUDA_QUIET(cudaStreamSynchronize(stream_)); }
  CudaAttend(const CudaAttend&) = delete;
  CudaAttend& operator=(const CudaAttend&) = delete;

  void run() {
    SelectorLayout dense;
    for (int h = 0; h < layer().shape.num_kv_heads; ++h)
      dense.dense_heads.push_back(call_.selector->is_dense(layer().layer, h));
    const std::vector<KvHeadRange> ranges = equally_dense({0, layer().shape.num_kv_heads}, {&dense, 1});
    for (std::int64_t sequence = 0; sequence < call_.batch; ++sequence) {
      if (call_.selector->needs_amax()) {
        w_.amax.reserve(2 * static_cast<std::size_t>(layer().shape.num_kv_heads) * sizeof(float));
        amax_ = reinterpret_cast<float*>(w_.amax.data());
        cuda_layer_amax(layer(), inputs_of(sequence), amax_, stream_);
      }
      for (const KvHeadRange& heads : ranges)
        enqueue(sequence, query_groups(layer(), heads), dense.dense_heads[static_cast<std::size_t>(heads.first)]);
    }
    check_overflow();
  }

 private:
  const AttentionLayer& layer() const { return call_.layer; }

  /// Enqueues as many groups at a time as the arena holds. If a chunk does not fit, half of it is tried; one group may
  /// take what is free.
  void enqueue(std::int64_t sequence, std::vector<QueryGroup> all, bool dense) {
    for (std::span<const QueryGroup> groups = all; !groups.empty();) {
      const std::size_t count = std::min(at_once_, groups.size());
      try {
        enqueue_chunk(sequence, groups.first(count), dense);
        groups = groups.subspan(count);
      } catch (const DeviceMemoryFull&) {
        if (count > 1) {
          at_once_ = (count + 1) / 2;
          continue;
        }
        if (w_.arena.limit() == DeviceArena::kNoLimit) throw;
        ATTEST_CUDA(cudaStreamSynchronize(stream_));
        w_.arena.release();  // slabs that are too small for the group
        w_.arena.set_limit(DeviceArena::kNoLimit);
      }
    }
  }

  DeviceInputs inputs_of(std::int64_t sequence) const {
    const AttentionShape& shape = layer().shape;
    const std::int64_t rows = sequence * layer().num_queries() * shape.num_query_heads,
                       keys = sequence * shape.num_kv_heads * layer().num_tokens;
    return {.q = at(call_.q, rows * shape.head_dim),
            .k = at(call_.k, keys * shape.head_dim),
            .v = at(call_.v, keys * shape.value_dim),
            .heads = {0, shape.num_kv_heads},
            .key_amax = amax_,
            .value_amax = amax_ == nullptr ? nullptr : amax_ + shape.num_kv_heads};
  }

  void enqueue_chunk(std::int64_t sequence, std::span<const QueryGroup> groups, bool dense) {
    const DeviceArena::Scope scope(w_.arena);
    const AttentionShape& shape = layer().shape;
    const std::int64_t cells = sequence * layer().num_queries() * shape.num_query_heads;
    const DeviceInputs inputs = inputs_of(sequence);
    auto* first = reinterpret_cast<OverflowKey*>(w_.overflow.data()) + sequence;
    const RowTables tables = row_tables(layer(), inputs.heads, groups);
    CudaChunk chunk = layer_chunk(layer(), inputs, tables, w_.arena, w_.uploads, stream_);
    cuda_exact_scores(chunk, false);
    const RowValues scores = chunk.visible_values(chunk.exact);
    cuda_find_overflow(chunk, scores, -kLargestScore, {.step = OverflowStep::score}, first);
    auto* maximum = chunk.take<float>(static_cast<std::size_t>(chunk.rows.num_rows));
    cuda_row_maxima(scores, maximum, stream_);
    chunk.exact_max = maximum;
    RowOrder order;
    if (!dense && code_.needs_exact_order()) {
      order = cuda_sort_descending(scores, w_.arena, stream_);
      chunk.exact_order = &order;
    }
    const std::vector<double> shifts = setting_shifts(*call_.selector, layer().layer, groups);
    chunk.setting_shift = shifts;
    CudaSelection selection;
    if (dense)
      cuda_keep_all(chunk, selection);
    else
      code_.select(chunk, grids_, selection);
    cuda_check_selection(chunk, *call_.selector, selection, 0, first);
    const DeviceOutputs outputs = cuda_selection_outputs(chunk, selection, 1);
    cuda_find_overflow(chunk, outputs, {.step = OverflowStep::output}, first);
    place(chunk, selection, outputs, sequence, cells);
  }

  const void* at(const void* from, std::int64_t element) const {
    return static_cast<const std::byte*>(from) + element * static_cast<std::int64_t>(size_of(layer().element_type));
  }

  void place(const CudaChunk& chunk, const CudaSelection& selection, const DeviceOutputs& outputs,
             std::int64_t sequence, std::int64_t cells) const {
    const DeviceRows& rows = chunk.rows;
    const AttentionShape& shape = layer().shape;
    const auto place_as = [&]<class T>(T* out) {
      place_outputs_kernel<<<rows.num_rows, kThreads, 0, stream_>>>(rows, outputs, out + cells * shape.value_dim,
                                                                    call_.lse + cells);
      ATTEST_CUDA_LAUNCHED(place_outputs_kernel);
    };
    switch (layer().element_type) {
      case ElementType::float16:
        place_as(static_cast<__half*>(call_.out));
        break;
      case ElementType::bfloat16:
        place_as(static_cast<__nv_bfloat16*>(call_.out));
        break;
      case ElementType::float32:
        place_as(static_cast<float*>(call_.out));
        break;
    }
    const int groups = rows.num_rows / rows.group;
    auto* kept =
        reinterpret_cast<unsigned long long*>(call_.kept) + sequence * layer().num_queries() * shape.num_kv_heads;
    if (selection.levels == nullptr) {
      all_visible_kernel<<<(groups + kThreads - 1) / kThreads, kThreads, 0, stream_>>>(rows, shape.num_query_heads,
                                                                                       kept);
      ATTEST_CUDA_LAUNCHED(all_visible_kernel);
      return;
    }
    const dim3 grid((rows.max_length + kThreads * kCounted - 1) / (kThreads * kCounted), groups);
    kept_tokens_kernel<<<grid, kThreads, 0, stream_>>>(rows, selection.levels, shape.num_query_heads, kept);
    ATTEST_CUDA_LAUNCHED(kept_tokens_kernel);
  }

  void check_overflow() {
    const std::size_t bytes = static_cast<std::size_t>(call_.batch) * sizeof(OverflowKey);
    ATTEST_CUDA(cudaMemcpyAsync(w_.overflow_read.data(), w_.overflow.data(), bytes, cudaMemcpyDeviceToHost, stream_));
    ATTEST_CUDA(cudaStreamSynchronize(stream_));
    const auto* keys = reinterpret_cast<const OverflowKey*>(w_.overflow_read.data());
    for (std::int64_t sequence = 0; sequence < call_.batch; ++sequence) {
      const auto found = overflow_of_key(keys[sequence], layer().shape.num_query_heads);
      if (found) refuse_overflow(*found, *call_.selector, layer(), call_.batch > 1 ? sequence : -1);
    }
  }

  const CudaAttendCall& call_;
  const CudaSelector& code_;
  Workspace& w_;
  const cudaStream_t stream_;
  const std::vector<AscendingGrid> grids_;
  std::size_t at_once_;    ///< the most groups of a chunk
  float* amax_ = nullptr;  ///< Workspace::amax, if the selector asks
};

}  // namespace

void cuda_attend(const CudaAttendCall& call) {
  check_supported(*call.selector, call.layer);
  const std::shared_ptr<const CudaSelector> code = call.selector->cuda_code();
  if (!code) throw UsageError("selector '" + call.selector->name() + "' has no CUDA code: expected tensors on the CPU");
  if (call.layer.num_tokens > kMaxOverflowTokens ||
      call.layer.num_queries() * call.layer.shape.num_query_heads > kMaxOverflowCells)
    throw UsageError("attend: " + std::to_string(call.layer.num_queries()) + " queries of " +
                     std::to_string(call.layer.shape.num_query_heads) + " heads and " +
                     std::to_string(call.layer.num_tokens) + " keys, expected at most " +
                     std::to_string(kMaxOverflowCells) + " rows and " + std::to_string(kMaxOverflowTokens) +
                     " keys on a GPU");
  int before = 0;
  ATTEST_CUDA(cudaGetDevice(&before));
  ATTEST_CUDA(cudaSetDevice(call.device));
  struct Restore {
    int device;
    ~Restore() { ATTEST_CUDA_QUIET(cudaSetDevice(device)); }
  } const restore{before};
  Workspace& workspace = workspace_of(call.device);
  const std::lock_guard lock(workspace.mutex);
  if (is_dense_step(call) &&
      cuda_attend_dense(call, workspace.arena, workspace.uploads, reinterpret_cast<int*>(workspace.flag.data())))
    return;
  CudaAttend(call, *code, workspace).run();  // tells, too, what was too large
}

}  // namespace attest
