// Times reading and studying a whole dump.
#include "experiments/bench/study/dump_timing.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "analysis/layer/make_layer_study.h"
#include "analysis/run/stream_study.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study_plan.h"
#include "dumps/base/input_file.h"
#include "dumps/base/parallel_for.h"
#include "experiments/bench/study/seconds_since.h"

namespace attest {
namespace {

/// Peak resident memory since the last reset_peak_memory.
std::int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// Seconds to read a file into memory once it is in the page cache. `threads` share its slices of 8 MiB.
double read_file(const std::string& path, int threads) {
  constexpr std::uint64_t kSlice = 8 << 20;
  const InputFile file(path);
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads), std::vector<std::byte>(kSlice));
  const auto read_all = [&] {
    parallel_for(threads, (file.size() + kSlice - 1) / kSlice, [&](int worker, std::size_t i) {
      const std::uint64_t begin = i * kSlice;
      file.read(begin,
                std::span(buffers[static_cast<std::size_t>(worker)]).first(std::min(kSlice, file.size() - begin)));
    });
  };
  read_all();
  const auto start = std::chrono::steady_clock::now();
  read_all();
  return seconds_since(start);
}

/// The times of all GPUs together, by stage.
std::vector<StageTime> stage_times_of(const std::vector<LayerStudy*>& devices) {
  std::vector<StageTime> all;
  for (const LayerStudy* const device : devices)
    for (const StageTime& stage : device->stage_times()) {
      const auto found = std::ranges::find(all, stage.name, &StageTime::name);
      if (found == all.end()) {
        all.push_back(stage);
      } else {
        found->seconds += stage.seconds;
        found->bytes += stage.bytes;
      }
    }
  return all;
}

}  // namespace

double DumpTiming::gpu_busy_seconds() const {
  const auto busy = std::ranges::find(stages, kBusyStage, &StageTime::name);
  return busy == stages.end() ? 0 : busy->seconds;
}

DumpTiming time_study(const std::string& path, const std::string& folder, const StudyBenchOptions& options,
                      std::int64_t queries) {
  std::vector<DumpReader> dumps;
  dumps.emplace_back(path);
  DumpTiming timing;
  timing.file_bytes = dumps[0].info().file_bytes;
  const DumpInfo* const infos[] = {&dumps[0].info()};
  Study study = timed_study(options.selectors, 0);
  if (queries > 0) study.choice.queries = {QueryChoice::Kind::last, queries, {}};
  const StudyPlan plan = plan_study(infos, study);
  timing.layers = plan.units.size();
  std::vector<std::unique_ptr<LayerStudy>> layer_studies;
  std::vector<LayerStudy*> devices;
  for (std::size_t i = 0; i < options.device.count(); ++i)
    devices.push_back(layer_studies.emplace_back(make_layer_study(study, options.device, options.threads, i)).get());
  PartialResults partial(folder, PartialResults::Start::fresh, "{}");
  reset_peak_memory();
  const auto start = std::chrono::steady_clock::now();
  StudyObserver observer{.started = [](const std::string&) {}, .progress = {}, .notice = [](const std::string&) {}};
  observer.progress = [&](const StudyProgress& progress) {
    if (progress.finished == 1) timing.memory_after_first = peak_memory();
  };
  UnitQueue queue(partial, plan, study.skip_bad_layers);
  stream_study(study, plan, dumps, devices, queue,
               {.reading_threads = reading_threads(options.device, options.threads),
                .storing_threads = storing_threads(options.device, options.threads)},
               observer);
  timing.study_seconds = seconds_since(start);
  timing.memory_at_end = peak_memory();
  timing.stages = stage_times_of(devices);
  timing.device = devices_text(devices);
  PartialResults::discard(folder);
  return timing;
}

DumpTiming time_dump(const std::string& path, const std::string& folder, const StudyBenchOptions& options) {
  const double one = read_file(path, 1), all = read_file(path, options.threads);
  DumpTiming timing = time_study(path, folder, options);
  timing.read_seconds = one;
  timing.parallel_read_seconds = all;
  if (options.device.kind == DeviceKind::cuda) timing.bandwidth = measure_cuda_bandwidth(options.device.first_gpu());
  return timing;
}

}  // namespace attest
