// The study of one layer on a CUDA device. A layer is copied to the device while the layer before it is computed
// (cuda_layer_input.h). The host waits for the device when results are collected, and where it is several chunks ahead.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>

#include "analysis/cuda/cuda_chunk_study.h"
#include "analysis/cuda/cuda_layer_input.h"
#include "analysis/cuda/cuda_layer_memory.h"
#include "analysis/cuda/cuda_layer_plan.h"
#include "analysis/cuda/cuda_overflow.h"
#include "analysis/cuda/cuda_results.h"
#include "analysis/layer/layer_amax.h"
#include "analysis/layer/layer_study.h"
#include "analysis/metrics/output_fidelity.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "kernels/device/busy_clock.h"
#include "kernels/device/page_locked_memory.h"
#include "kernels/device/stage_clock.h"
#include "kernels/device/stream.h"
#include "kernels/rank/rank_correlation_cuda.h"

namespace attest {
namespace {

constexpr std::size_t kChunksAhead = 4;  // enqueued and not finished

std::string digits(const cudaUUID_t& uuid) {
  std::array<std::uint64_t, 2> halves{};
  static_assert(sizeof halves == sizeof uuid.bytes);
  std::memcpy(halves.data(), uuid.bytes, sizeof halves);
  return hex_digits(halves[0]) + hex_digits(halves[1]);
}

/// A layer that was submitted and not yet collected.
struct Job {
  explicit Job(KeptUploads* kept) : uploads(kept) {}
  CudaResults results;
  std::vector<int2> spans;
  std::vector<double> head_weights;
  Uploads uploads;
  StageClock clock, copy_clock;
  std::size_t spans_busy = 0;  ///< of the BusyClock
  DeviceBuffer amax;           ///< [2, KV heads] largest magnitudes of keys and values
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
        needs_amax_(std::ranges::any_of(study.selectors, [](const auto& s) { return s.selector->needs_amax(); })),
        memory_(memory_of(memory, properties), study.selectors.size() > 1),
        input_(device, properties.multiProcessorCount, needs_amax_, memory_, computing_, computed_,
               [this] { throw_if_stopped(); }) {
    for (const StudySelector& s : study.selectors) selectors_.push_back(s.selector->cuda_code());
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

  /// Beside copies of pieces, which the copy engine serves first, the code of 56 kernels took 13 to 20 ms to load.
  void rehearse(const AttentionLayer& layer, const std::function<void()>& begin_arrival) override {
    try {
      ATTEST_CUDA(cudaSetDevice(device_));
      check(layer);
      const CudaPieceRing::Hold hold = input_.hold_copies();
      begin_arrival();
      enqueue_rehearsal(layer);
      busy_.forget();
    } catch (...) {
      abandon();
      throw;
    }
  }

  LayerResults collect() override {
    Job& job = jobs_[static_cast<std::size_t>(submitted_.front())];
    try {
      ATTEST_CUDA(cudaSetDevice(device_));
      job.done.synchronize();
      job.clock.add_to(times_);
      job.copy_clock.add_to(times_);
      busy_seconds_ += busy_.take(job.spans_busy);
    } catch (...) {
      abandon();
      throw;
    }
    submitted_.pop_front();
    return job.results.take();
  }

  int max_submitted() const override { return kLayersSubmitted; }
  int layers_at_once() const override { return kLayersAtOnce; }
  std::pmr::memory_resource* layer_memory() override { return page_locked_memory(device_); }
  std::shared_ptr<LayerStore> make_layer_store() override {
    ATTEST_CUDA(cudaSetDevice(device_));
    return input_.make_layer_store();
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
    times.push_back({.name = std::string(kBusyStage), .seconds = busy_seconds_});
    input_.add_copies_to(times);
    return times;
  }

 private:
  void check(const AttentionLayer& layer) const {
    for (const StudySelector& s : study_.selectors) s.selector->check(layer.shape.kv());
    if (layer.num_tokens > kMaxRankedItems)
      throw DeviceError("a sample of " + std::to_string(layer.num_tokens) + " tokens is longer than the " +
                        std::to_string(kMaxRankedItems) + " that the GPU study takes; choose --device cpu");
    if (layer.num_queries() * layer.shape.num_query_heads > kMaxOverflowCells)
      throw DeviceError(std::to_string(layer.num_queries()) + " queries of " +
                        std::to_string(layer.shape.num_query_heads) + " heads are more than the " +
                        std::to_string(kMaxOverflowCells) + " rows that the GPU study takes; choose --device cpu");
  }

  /// Waits for the device and drops all submitted layers.
  void abandon() noexcept {
    ATTEST_CUDA_QUIET(cudaStreamSynchronize(input_.copying()));
    ATTEST_CUDA_QUIET(cudaStreamSynchronize(computing_));
    ATTEST_CUDA_QUIET(cudaStreamSynchronize(computed_));  // waits for the selectors
    submitted_.clear();
    busy_.forget();
    for (Job& job : jobs_) {
      job.clock.forget();
      job.copy_clock.forget();
    }
  }

  void enqueue(const AttentionLayer& layer, Job& job) {
    begin(layer, job);
    const std::size_t busy_before = busy_.size();
    if (layer.in_store)
      enqueue_stored(layer, job);
    else
      enqueue_ranges(layer, job);
    job.spans_busy = busy_.size() - busy_before;
    finish(layer, job);
    job.done.record(computed_);
  }

  void begin(const AttentionLayer& layer, Job& job) {
    job.results.begin(study_, metrics_, layer, computing_);
    job.spans = disjoint_spans(layer);
    job.head_weights = head_weights(layer.head_gradient, layer.shape.num_query_heads);
  }
  void finish(const AttentionLayer& layer, Job& job) {
    job.results.enqueue_finish(static_cast<int>(layer.num_queries()), layer.shape.num_query_heads, computed_);
  }

  void enqueue_ranges(const AttentionLayer& layer, Job& job) {
    const std::vector<KvHeadRange> ranges = input_.ranges(layer, submitted_.empty());
    float* amax = amax_memory(layer, job);
    if (amax != nullptr && ranges.size() > 1) upload_amax(layer, amax);
    for (const KvHeadRange& heads : ranges)
      input_.copy(layer, heads, job.copy_clock,
                  [&](const DeviceInputs& part) { enqueue_heads(layer, part, amax, ranges.size() == 1, job); });
  }

  /// All heads at once if the largest magnitudes of the whole layer are asked for.
  void enqueue_stored(const AttentionLayer& layer, Job& job) {
    input_.take_stored(layer, submitted_.empty(), job.uploads, job.copy_clock, [&](const DeviceInputs& part) {
      enqueue_heads(layer, part, amax_memory(layer, job), true, job);
    });
  }

  /// One query and KV head of such a layer, all zeros: the code of a kernel is loaded when it is first called.
  void enqueue_rehearsal(const AttentionLayer& layer) {
    const std::vector<QueryGroup> groups = query_groups(layer, {0, 1});
    const LayerBytes of_head(layer);
    const std::byte* const zeros = memory_.zeros(std::max({of_head.q, of_head.k, of_head.v}), computing_);
    if (groups.empty() || zeros == nullptr) return;
    input_.make_room_for_stored(layer, true);
    Job& job = rehearsal_.emplace(&kept_uploads_);
    begin(layer, job);
    const bool by_layer =
        std::ranges::any_of(study_.selectors, [](const auto& s) { return s.selector->settings_file() != nullptr; });
    if (!by_layer) job.results.make_no_head_dense();  // the first layers often are
    float* const amax = amax_memory(layer, job);
    if (amax != nullptr) ATTEST_CUDA(cudaMemsetAsync(amax, 0, job.amax.size(), computing_));
    CudaChunkStudy study = chunk_study(layer, {.q = zeros, .k = zeros, .v = zeros, .heads = {0, 1}}, amax, job);
    enqueue_groups(layer, study, std::span(groups).last(1));
    finish(layer, job);
  }

  /// [2, KV heads], or null if nobody asks.
  float* amax_memory(const AttentionLayer& layer, Job& job) const {
    if (!needs_amax_) return nullptr;
    job.amax.reserve(2 * static_cast<std::size_t>(layer.shape.num_kv_heads) * sizeof(float));
    return reinterpret_cast<float*>(job.amax.data());
  }

  /// `fill_amax`: the heads are all of the layer.
  void enqueue_heads(const AttentionLayer& layer, const DeviceInputs& inputs, float* amax, bool fill_amax, Job& job) {
    if (amax != nullptr && fill_amax) cuda_layer_amax(layer, inputs, amax, computing_);
    CudaChunkStudy study = chunk_study(layer, inputs, amax, job);
    for (const KvHeadRange& alike : equally_dense(inputs.heads, job.results.layout().selectors))
      enqueue_groups(layer, study, query_groups(layer, alike));
  }

  CudaChunkStudy chunk_study(const AttentionLayer& layer, DeviceInputs inputs, float* amax, Job& job) {
    inputs.key_amax = amax;
    inputs.value_amax = amax == nullptr ? nullptr : amax + layer.shape.num_kv_heads;
    return CudaChunkStudy({study_, selectors_, layer, inputs, job.uploads, job.results, job.spans, job.head_weights,
                           job.clock, computing_});
  }

  /// Of a layer whose KV heads are not on the device together.
  void upload_amax(const AttentionLayer& layer, float* to) const {
    const LayerAmax of_layer = layer_amax(layer, threads_);
    std::vector<float> both = of_layer.keys;
    both.insert(both.end(), of_layer.values.begin(), of_layer.values.end());
    ATTEST_CUDA(cudaMemcpyAsync(to, both.data(), both.size() * sizeof(float), cudaMemcpyHostToDevice, computing_));
  }

  /// Limits how far the host runs ahead of the device, so that a layer of many chunks can be interrupted.
  void wait_for_earlier_chunk() {
    throw_if_stopped();
    chunks_done_[next_chunk_].synchronize();  // returns at once if it was never recorded
    throw_if_stopped();
  }

  /// The work of a chunk between its construction and its destruction, which makes computed_ wait for it.
  class ChunkWork {
   public:
    explicit ChunkWork(CudaLayerStudy& study) : study_(study) {
      // The chunk that had the same scratch memory.
      study_.chunks_done_[(study_.next_chunk_ + kChunksAhead - CudaLayerMemory::kChunks) % kChunksAhead].make_wait(
          study_.computing_);
      study_.busy_.begin(study_.computing_);
    }
    ~ChunkWork() {
      try {
        study_.end_chunk();
      } catch (const DeviceError&) {  // is told where the layer is waited for
      }
    }
    ChunkWork(const ChunkWork&) = delete;
    ChunkWork& operator=(const ChunkWork&) = delete;

   private:
    CudaLayerStudy& study_;
  };

  void end_chunk() {
    exact_done_.record(computing_);
    exact_done_.make_wait(computed_);
    if (memory_.side_by_side()) selector_streams_.join(computed_);
    busy_.end(computed_);
    chunks_done_[next_chunk_].record(computed_);
    next_chunk_ = (next_chunk_ + 1) % chunks_done_.size();
  }

  /// Enqueues as many groups at a time as the arena holds. If a chunk does not fit, half of it is tried; results of
  /// rows that were written already are overwritten with the same values.
  void enqueue_groups(const AttentionLayer& layer, CudaChunkStudy& study, std::span<const QueryGroup> groups) {
    std::size_t at_once = groups_at_once(layer, memory_.max_elements(layer));
    while (!groups.empty()) {
      const std::size_t count = std::min(at_once, groups.size());
      wait_for_earlier_chunk();
      try {
        const ChunkWork work(*this);
        study.enqueue(groups.first(count), memory_.scratch(next_chunk_),
                      memory_.side_by_side() ? &selector_streams_ : nullptr);
        groups = groups.subspan(count);
      } catch (const DeviceMemoryFull& full) {
        if (count == 1 && !memory_.side_by_side())
          throw DeviceError(std::string(full.what()) +
                            ": raise --device-memory if more is free, or choose --device cpu");
        if (count == 1) {
          computed_.synchronize();  // waits for the work of all streams
          memory_.stop_side_by_side();
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
  const bool needs_amax_;
  std::vector<std::shared_ptr<const CudaSelector>> selectors_;
  CudaLayerMemory memory_;
  CudaStream computing_, computed_;  ///< the second waits for all that is computed, and has the results copied
  CudaSelectorStreams selector_streams_{memory_.selector_scratch()};
  CudaLayerInput input_;
  CudaEvent exact_done_;
  std::array<CudaEvent, kChunksAhead> chunks_done_;
  std::size_t next_chunk_ = 0;  ///< index of chunks_done_
  BusyClock busy_;
  double busy_seconds_ = 0;
  KeptUploads kept_uploads_;
  std::optional<Job> rehearsal_;  ///< kept: to free its memory would wait for the device
  std::array<Job, kLayersSubmitted> jobs_{Job(&kept_uploads_), Job(&kept_uploads_)};
  int next_job_ = 0;
  std::deque<int> submitted_;  // indices of jobs_, oldest first
  std::vector<StageTime> times_;
};

}  // namespace

std::unique_ptr<LayerStudy> make_cuda_layer_study(const Study& study, int device, const DeviceMemoryLimit& memory,
                                                  std::span<const Metric> metrics, int threads) {
  prepare_page_locked(CudaPieceRing::kBytes);  // while the device is started
  ATTEST_CUDA(cudaSetDevice(device));
  require_cuda_code(study, metrics);
  cudaDeviceProp properties{};
  ATTEST_CUDA(cudaGetDeviceProperties(&properties, device));
  return std::make_unique<CudaLayerStudy>(study, device, properties, memory, metrics, threads);
}

}  // namespace attest
