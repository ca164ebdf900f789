// The study of one layer on a CUDA device. A layer is copied to the device while the layer before it is computed; of
// one that arrives in its store, the heads that are there are computed while others are read. The host waits for the
// device when results are collected, and where it is several chunks ahead.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>

#include "analysis/cuda/cuda_chunk_study.h"
#include "analysis/cuda/cuda_layer_memory.h"
#include "analysis/cuda/cuda_layer_plan.h"
#include "analysis/cuda/cuda_layer_store.h"
#include "analysis/cuda/cuda_overflow.h"
#include "analysis/cuda/cuda_results.h"
#include "analysis/layer/layer_amax.h"
#include "analysis/layer/layer_study.h"
#include "analysis/metrics/output_fidelity.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/kv_source.h"
#include "kernels/device/page_locked_memory.h"
#include "kernels/device/stage_clock.h"
#include "kernels/device/stream.h"

namespace attest {
namespace {

constexpr std::size_t kChunksAhead = 4;  // enqueued and not finished
// Keys and values that are computed while the rest of their layer arrives: less does not fill the device. With 256 MiB,
// two layers of 256K tokens and 4 queries kept an H200 busy for 0.151 s, with all at once for 0.083 s.
constexpr std::size_t kMinArrived = std::size_t{1} << 30;
constexpr std::chrono::milliseconds kArrivalWait{20};  // before it looks for an interruption
// Per row: sums of squared centred ranks, n^3 / 3, stay below 2^63.
constexpr std::int64_t kMaxTokens = 3'000'000;

std::string digits(const cudaUUID_t& uuid) {
  std::array<std::uint64_t, 2> halves{};
  static_assert(sizeof halves == sizeof uuid.bytes);
  std::memcpy(halves.data(), uuid.bytes, sizeof halves);
  return hex_digits(halves[0]) + hex_digits(halves[1]);
}

/// A layer that was submitted and not yet collected.
struct Job {
  CudaResults results;
  std::vector<int2> spans;
  std::vector<double> head_weights;
  Uploads uploads;
  StageClock clock, copy_clock;
  DeviceBuffer amax;  ///< [2, KV heads] largest magnitudes of keys and values
  CudaEvent done;
};

/// Bytes of device memory that may be used.
std::size_t memory_of(const DeviceMemoryLimit& limit, const cudaDeviceProp& properties) {
  const std::size_t all = properties.totalGlobalMem,
                    bytes = limit.bytes > 0 ? limit.bytes
                                            : static_cast<std::size_t>(limit.share * static_cast<double>(all));
  if (bytes > all)
    throw UsageError("--device-memory is " + std::to_string(bytes >> 20) + " MiB, " + properties.name + " has " +
                     std::to_string(all >> 20));
  return bytes;
}

class CudaLayerStudy final : public LayerStudy {
 public:
  CudaLayerStudy(const Study& study, int device, const cudaDeviceProp& properties, const DeviceMemoryLimit& memory,
                 std::span<const Metric> metrics, int threads)
      : study_(study),
        metrics_(metrics),
        threads_(threads),
        device_(device),
        name_(properties.name),
        identity_(digits(properties.uuid)),
        multiprocessors_(properties.multiProcessorCount),
        memory_(memory_of(memory, properties), study.selectors.size() > 1) {
    for (const StudySelector& s : study.selectors) selectors_.push_back(s.selector->cuda_code());
    needs_amax_ = std::ranges::any_of(study.selectors, [](const auto& s) { return s.selector->needs_amax(); });
  }
  ~CudaLayerStudy() override {
    ATTEST_CUDA_QUIET(cudaSetDevice(device_));  // that of the calling thread may be another
    ATTEST_CUDA_QUIET(cudaDeviceSynchronize());
  }

  LayerResults run(const AttentionLayer& layer) override {
    submit(layer);
    return collect();
  }

  void submit(const AttentionLayer& layer) override {
    Job& job = jobs_[static_cast<std::size_t>(next_job_)];
    try {
      ATTEST_CUDA(cudaSetDevice(device_));
      check(layer);
      job.uploads.reset();
      enqueue(layer, job);
    } catch (...) {
      abandon();
      throw;
    }
    submitted_.push_back(next_job_);
    next_job_ = (next_job_ + 1) % kLayersSubmitted;
  }

  LayerResults collect() override {
    Job& job = jobs_[static_cast<std::size_t>(submitted_.front())];
    try {
      ATTEST_CUDA(cudaSetDevice(device_));
      job.done.synchronize();
      job.clock.add_to(times_);
      job.copy_clock.add_to(times_);
    } catch (...) {
      abandon();
      throw;
    }
    submitted_.pop_front();
    return job.results.take();
  }

  int max_submitted() const override { return kLayersSubmitted; }
  std::pmr::memory_resource* layer_memory() override { return page_locked_memory(device_); }
  std::shared_ptr<LayerStore> make_layer_store() override {
    ATTEST_CUDA(cudaSetDevice(device_));
    if (!ring_) ring_ = std::make_shared<CudaPieceRing>(device_);
    return std::make_shared<CudaLayerStore>(device_, ring_, memory_.stores());
  }
  /// With two H200 and 46 GB of buffers on each, freeing these first took 0.04 to 0.1 s more.
  bool end_device() override {
    ATTEST_CUDA_QUIET(cudaSetDevice(device_));
    ATTEST_CUDA_QUIET(cudaDeviceReset());
    return true;
  }
  std::string identity() const override { return identity_; }
  std::string device() const override { return name_ + " (cuda:" + std::to_string(device_) + ")"; }
  std::vector<StageTime> stage_times() const override {
    std::vector<StageTime> times = times_;
    if (!ring_) return times;
    const StageTime copies = ring_->time();
    const auto found = std::ranges::find(times, copies.name, &StageTime::name);
    if (found == times.end()) return times;  // no layer was collected
    found->seconds += copies.seconds;
    found->bytes += copies.bytes;
    return times;
  }

 private:
  void check(const AttentionLayer& layer) const {
    for (const StudySelector& s : study_.selectors) s.selector->check(layer.shape.kv());
    if (layer.num_tokens > kMaxTokens)
      throw DeviceError("a sample of " + std::to_string(layer.num_tokens) + " tokens is longer than the " +
                        std::to_string(kMaxTokens) + " that the GPU study takes; choose --device cpu");
    if (layer.num_queries() * layer.shape.num_query_heads > kMaxOverflowCells)
      throw DeviceError(std::to_string(layer.num_queries()) + " queries of " +
                        std::to_string(layer.shape.num_query_heads) + " heads are more than the " +
                        std::to_string(kMaxOverflowCells) + " rows that the GPU study takes; choose --device cpu");
  }

  /// Waits for the device and drops all submitted layers.
  void abandon() noexcept {
    ATTEST_CUDA_QUIET(cudaStreamSynchronize(copying_));
    ATTEST_CUDA_QUIET(cudaStreamSynchronize(computing_));
    ATTEST_CUDA_QUIET(cudaStreamSynchronize(computing_beside_));
    submitted_.clear();
    for (Job& job : jobs_) {
      job.clock.forget();
      job.copy_clock.forget();
    }
  }

  void enqueue(const AttentionLayer& layer, Job& job) {
    job.results.begin(study_, metrics_, layer, computing_);
    job.spans = disjoint_spans(layer);
    job.head_weights = head_weights(layer.head_gradient, layer.shape.num_query_heads);
    if (layer.in_store)
      enqueue_stored(layer, job);
    else
      enqueue_ranges(layer, job);
    job.results.enqueue_finish(static_cast<int>(layer.num_queries()), layer.shape.num_query_heads, computing_);
    job.done.record(computing_);
  }

  void enqueue_ranges(const AttentionLayer& layer, Job& job) {
    const std::vector<KvHeadRange> ranges = head_ranges(layer);
    float* amax = amax_memory(layer, job);
    if (amax != nullptr && ranges.size() > 1) upload_amax(layer, amax);
    for (const KvHeadRange& heads : ranges) {
      InputSlot& slot = memory_.next_slot();
      copy(layer, heads, slot, job);
      enqueue_heads(layer, {.q = slot.q.data(), .k = slot.k.data(), .v = slot.v.data(), .heads = heads}, amax,
                    ranges.size() == 1, job);
      slot.free.record(computing_);
    }
  }

  /// Heads that have arrived are computed together: at least kMinArrived bytes of them, and all at once if the
  /// largest magnitudes of the whole layer are asked for.
  void enqueue_stored(const AttentionLayer& layer, Job& job) {
    const auto& store = dynamic_cast<const CudaLayerStore&>(*layer.store);
    const LayerBytes bytes(layer);
    const std::size_t k = bytes.k, v = bytes.v;
    const int all = layer.shape.num_kv_heads,
              minimum = needs_amax_
                            ? all
                            : std::min(static_cast<int>(std::min<std::size_t>((kMinArrived - 1) / (k + v) + 1, all)),
                                       heads_at_once(layer));
    memory_.size_for(layer, 0, (kLayersSubmitted + 1) * static_cast<std::size_t>(all) * (k + v), submitted_.empty(),
                     computing_);
    float* amax = amax_memory(layer, job);
    InputSlot& slot = memory_.next_slot();
    copy(layer, {}, slot, job);
    for (int first = 0; first < all;) {
      const int wanted = std::min(all, first + minimum), arrived = wait_for_heads(store, wanted);
      if (arrived < wanted) break;  // no more come: the results mean nothing
      store.make_wait(computing_);
      const auto before = static_cast<std::size_t>(first);
      enqueue_heads(layer,
                    {.q = slot.q.data(),
                     .k = store.keys() + before * k,
                     .v = store.values() + before * v,
                     .heads = {first, arrived - first}},
                    amax, true, job);
      first = arrived;
    }
    slot.free.record(computing_);
  }

  /// While a part of a layer that the device waits for is computed, the rest is copied. A part has a row for every
  /// multiprocessor: many kernels have a thread block for each row.
  int heads_at_once(const AttentionLayer& layer) const {
    const int all = layer.shape.num_kv_heads;
    const std::int64_t rows = layer.num_queries() * layer.shape.group();  // of a KV head
    if (needs_amax_ || !submitted_.empty() || rows == 0) return all;
    const auto filling = static_cast<int>(std::min<std::int64_t>((multiprocessors_ + rows - 1) / rows, all));
    return std::max((all + 1) / 2, filling);
  }

  /// The number of heads that have arrived, at least so many unless no more come.
  int wait_for_heads(const CudaLayerStore& store, int heads) const {
    for (;;) {
      throw_if_stopped();
      const KvArrival::State state = store.arrival.wait(heads, kArrivalWait);
      if (state.heads >= heads || state.ended) return state.heads;
    }
  }

  /// [2, KV heads], or null if nobody asks.
  float* amax_memory(const AttentionLayer& layer, Job& job) const {
    if (!needs_amax_) return nullptr;
    job.amax.reserve(2 * static_cast<std::size_t>(layer.shape.num_kv_heads) * sizeof(float));
    return reinterpret_cast<float*>(job.amax.data());
  }

  /// `fill_amax`: the heads are all of the layer.
  void enqueue_heads(const AttentionLayer& layer, DeviceInputs inputs, float* amax, bool fill_amax, Job& job) {
    inputs.key_amax = amax;
    inputs.value_amax = amax == nullptr ? nullptr : amax + layer.shape.num_kv_heads;
    if (amax != nullptr && fill_amax) cuda_layer_amax(layer, inputs, amax, computing_);
    CudaChunkStudy study({study_, selectors_, layer, inputs, memory_.scratch(), job.uploads, job.results, job.spans,
                          job.head_weights, job.clock, computing_});
    for (const KvHeadRange& alike : equally_dense(inputs.heads, job.results.layout().selectors))
      enqueue_groups(layer, study, query_groups(layer, alike));
  }

  /// Of a layer whose KV heads are not on the device together.
  void upload_amax(const AttentionLayer& layer, float* to) const {
    const LayerAmax of_layer = layer_amax(layer, threads_);
    std::vector<float> both = of_layer.keys;
    both.insert(both.end(), of_layer.values.begin(), of_layer.values.end());
    ATTEST_CUDA(cudaMemcpyAsync(to, both.data(), both.size() * sizeof(float), cudaMemcpyHostToDevice, computing_));
  }

  /// Ranges of KV heads whose keys and values fit in an input slot. All heads form one range if they fit.
  std::vector<KvHeadRange> head_ranges(const AttentionLayer& layer) {
    const AttentionShape& shape = layer.shape;
    const int fit = memory_.heads_per_slot(layer);
    memory_.size_for(layer, fit, 0, submitted_.empty(), computing_);
    const int at_once = std::min(fit, heads_at_once(layer));
    std::vector<KvHeadRange> ranges;
    for (int first = 0; first < shape.num_kv_heads; first += at_once)
      ranges.push_back({first, std::min(at_once, shape.num_kv_heads - first)});
    return ranges;
  }

  /// No heads: the queries alone. Keys and values of a layer with a source are read here.
  void copy(const AttentionLayer& layer, const KvHeadRange& heads, InputSlot& slot, Job& job) {
    const auto [q, k, v] = LayerBytes(layer);
    const auto first = static_cast<std::size_t>(heads.first), count = static_cast<std::size_t>(heads.count);
    slot.free.make_wait(copying_);
    const std::size_t in_memory = layer.source ? 0 : count;
    {
      const StageClock::Stage stage(job.copy_clock, std::string(kHostCopyStage), copying_,
                                    static_cast<double>(q + in_memory * (k + v)));
      const auto enqueue = [this](DeviceBuffer& to, const std::byte* from, std::size_t bytes) {
        if (bytes > 0) ATTEST_CUDA(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyHostToDevice, copying_));
      };
      enqueue(slot.q, layer.q.data(), q);
      enqueue(slot.k, layer.k.data() + first * k, in_memory * k);
      enqueue(slot.v, layer.v.data() + first * v, in_memory * v);
    }
    slot.copied.record(copying_);
    slot.copied.make_wait(computing_);
    if (!layer.source) return;
    ring_->wait_for(slot.free);
    layer.source->read(heads.first, heads.count,
                       [&](KvTensor tensor, std::size_t offset, std::size_t bytes, const LayerStore::Fill& fill) {
                         throw_if_stopped();
                         ring_->copy((tensor == KvTensor::k ? slot.k : slot.v).data() + offset, bytes, fill);
                       });
    ring_->make_wait(computing_);
  }

  /// Limits how far the host runs ahead of the device, so that a layer of many chunks can be interrupted.
  void wait_for_earlier_chunk() {
    throw_if_stopped();
    chunks_done_[next_chunk_].synchronize();  // returns at once if it was never recorded
    throw_if_stopped();
  }

  /// Enqueues as many groups at a time as the arena holds. If a chunk does not fit, half of it is tried; results of
  /// rows that were written already are overwritten with the same values.
  void enqueue_groups(const AttentionLayer& layer, CudaChunkStudy& study, std::span<const QueryGroup> groups) {
    std::size_t at_once = groups_at_once(layer, memory_.max_elements(layer));
    while (!groups.empty()) {
      const std::size_t count = std::min(at_once, groups.size());
      wait_for_earlier_chunk();
      try {
        study.enqueue(groups.first(count), memory_.has_second_lane() ? &lane_ : nullptr);
        chunks_done_[next_chunk_].record(computing_);
        next_chunk_ = (next_chunk_ + 1) % chunks_done_.size();
        groups = groups.subspan(count);
      } catch (const DeviceMemoryFull&) {
        if (count == 1 && !memory_.has_second_lane()) throw;
        if (count == 1) {
          computing_.synchronize();  // waits for the work of both lanes
          memory_.drop_second_lane();
          continue;
        }
        at_once = (count + 1) / 2;
        memory_.limit_elements(at_once * static_cast<std::size_t>(layer.shape.group()) *
                               static_cast<std::size_t>(longest_row(layer)));
      }
    }
  }

  const Study& study_;
  const std::span<const Metric> metrics_;
  const int threads_;
  const int device_;
  const std::string name_, identity_;
  const int multiprocessors_;
  std::shared_ptr<CudaPieceRing> ring_;  // made with the first store
  bool needs_amax_ = false;
  std::vector<std::shared_ptr<const CudaSelector>> selectors_;
  CudaLayerMemory memory_;
  CudaStream copying_, computing_, computing_beside_;
  CudaLane lane_{memory_.second_scratch(), computing_beside_, CudaEvent(), CudaEvent()};
  std::array<CudaEvent, kChunksAhead> chunks_done_;
  std::size_t next_chunk_ = 0;
  std::array<Job, kLayersSubmitted> jobs_;
  int next_job_ = 0;
  std::deque<int> submitted_;  // indices of jobs_, oldest first
  std::vector<StageTime> times_;
};

}  // namespace

std::unique_ptr<LayerStudy> make_cuda_layer_study(const Study& study, int device, const DeviceMemoryLimit& memory,
                                                  std::span<const Metric> metrics, int threads) {
  ATTEST_CUDA(cudaSetDevice(device));
  require_cuda_code(study, metrics);
  cudaDeviceProp properties{};
  ATTEST_CUDA(cudaGetDeviceProperties(&properties, device));
  return std::make_unique<CudaLayerStudy>(study, device, properties, memory, metrics, threads);
}

}  // namespace attest
