// Runs, checks and times the study of one layer and of a whole dump.
#include "experiments/bench/study_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>

#include "analysis/layer/make_layer_study.h"
#include "analysis/run/stream_study.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study_plan.h"
#include "analysis/torch/torch_peer.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/parallel_for.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The settings that the methods' papers use.
std::vector<Setting> paper_settings(SettingKind kind) {
  switch (kind) {
    case SettingKind::delta:
      return {{5}, {7}};
    case SettingKind::budget:
      return {{1024}, {50, true}};
    case SettingKind::p:
      return {{0.85}};
    case SettingKind::factor:
      return {{1000}};
    case SettingKind::none:
      break;
  }
  return {{}};
}

std::vector<Setting> sweep(SettingKind kind, int points) {
  std::vector<Setting> grid;
  for (int i = 0; i < points && kind != SettingKind::none; ++i) {
    const double t = points > 1 ? static_cast<double>(i) / (points - 1) : 1;
    if (kind == SettingKind::delta) grid.push_back({1 + 11 * t});
    if (kind == SettingKind::budget) grid.push_back({100 * std::exp2(-6 * (1 - t)), true});
    if (kind == SettingKind::p) grid.push_back({0.5 + 0.499 * t});
    if (kind == SettingKind::factor) grid.push_back({std::pow(10.0, 4 * t)});
  }
  return grid.empty() ? std::vector<Setting>{{}} : grid;
}

/// sweep_points 0: the settings of the papers.
Study study_of(const StudyBenchOptions& options, int sweep_points) {
  Study study;
  for (const std::string& name : options.selectors) {
    SelectorSpec spec{.label = name, .name = name, .options = {}};
    if (name == "quest" || name == "twilight") spec.options.emplace_back("dense_layers", "0");
    std::shared_ptr<Selector> selector = make_selector(spec);
    const SettingKind kind = selector->setting_kind();
    std::vector<Setting> grid = sweep_points > 0 ? sweep(kind, sweep_points) : paper_settings(kind);
    std::vector<std::string> labels;
    for (const Setting& setting : grid) labels.push_back(fmt::format("{}", setting.value));
    study.selectors.push_back(make_study_selector(name, std::move(selector), std::move(grid), std::move(labels)));
  }
  return study;
}

void compare(const std::string& group, const std::vector<MetricValues>& ours, const std::vector<MetricValues>& peers,
             Agreement& agreement, std::map<std::string, std::int64_t>& differing) {
  for (const MetricValues& a : ours)
    for (const MetricValues& b : peers) {
      if (a.name != b.name || a.values.size() != b.values.size()) continue;
      agreement.cells += static_cast<std::int64_t>(a.values.size());
      for (std::size_t i = 0; i < a.values.size(); ++i) {
        const double x = a.values[i], y = b.values[i];
        const bool both_undefined = std::isnan(x) && std::isnan(y);
        if (!both_undefined && !(std::fabs(x - y) <= kAgreementTolerance * std::max(1.0, std::fabs(x))))
          ++differing[group + "/" + a.name];
      }
    }
}

Agreement compare(const Study& study, const LayerResults& ours, const LayerResults& peers) {
  Agreement agreement;
  std::map<std::string, std::int64_t> differing;
  compare("scores", ours.scores, peers.scores, agreement, differing);
  for (std::size_t s = 0; s < ours.selectors.size(); ++s)
    compare(study.selectors[s].label, ours.selectors[s].metrics, peers.selectors[s].metrics, agreement, differing);
  std::int64_t most = 0;
  for (const auto& [name, count] : differing) {
    agreement.differing += count;
    if (count > most) {
      most = count;
      agreement.worst = name;
    }
  }
  if (agreement.cells == 0 ||
      !(static_cast<double>(agreement.differing) <= kMaxDifferingShare * static_cast<double>(agreement.cells)))
    throw Error(fmt::format(
        "bench: {} of {} cells differ from the LibTorch peer's by more than {} (most in '{}'), expected at "
        "most {:.0f} %",
        agreement.differing, agreement.cells, kAgreementTolerance, agreement.worst, 100 * kMaxDifferingShare));
  return agreement;
}

LayerTiming time_layer(const DumpReader& dump, const StudyBenchOptions& options, int sweep_points) {
  const Study study = study_of(options, sweep_points);
  LayerTiming timing;
  timing.name = sweep_points > 0 ? fmt::format("sweep, {} points", sweep_points) : "paper settings";
  for (const StudySelector& s : study.selectors) timing.settings += static_cast<int>(s.grid.size());
  const std::unique_ptr<LayerStudy> ours = make_layer_study(study, options.device, options.threads);
  AttentionLayer layer(ours->layer_memory());
  const int number = dump.info().samples[0].layers[0];
  if (!dump.read_layer(0, number, layer))
    throw InputError(fmt::format("{}: layer {} holds NaN or infinity", dump.info().path, number));
  const LayerResults results = ours->run(layer);
  if (!results.defect.empty()) throw InputError(fmt::format("{}: {}", dump.info().path, results.defect));
  for (int i = 0; i < options.peer_repeats; ++i) {
    const bool cuda = options.device.kind == DeviceKind::cuda;
    const TorchPeerResult result = run_torch_peer(
        layer, study, cuda ? fmt::format("cuda:{}", options.device.first_gpu()) : "cpu", options.threads);
    if (i == 0) timing.agreement = compare(study, results, result.results);
    timing.peer_seconds.push_back(result.seconds);
  }
  for (int i = 0; i < options.repeats; ++i) {
    const auto start = Clock::now();
    ours->run(layer);
    timing.seconds.push_back(seconds_since(start));
  }
  timing.stages = ours->stage_times();
  for (StageTime& stage : timing.stages) {
    const double runs = 1 + options.repeats;
    stage.seconds /= runs;
    stage.bytes /= runs;
  }
  return timing;
}

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
  const auto start = Clock::now();
  read_all();
  return seconds_since(start);
}

/// Of all GPUs together, by stage.
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

DumpTiming time_dump(const std::string& path, const std::string& folder, const std::vector<DumpReader>& dumps,
                     const StudyBenchOptions& options) {
  DumpTiming timing;
  timing.file_bytes = dumps[0].info().file_bytes;
  timing.read_seconds = read_file(path, 1);
  timing.parallel_read_seconds = read_file(path, options.threads);
  const DumpInfo* const infos[] = {&dumps[0].info()};
  Study study = study_of(options, 0);
  const StudyPlan plan = plan_study(infos, study);
  timing.layers = plan.units.size();
  const std::vector<std::unique_ptr<LayerStudy>> layer_studies =
      make_layer_studies(study, options.device, options.threads);
  std::vector<LayerStudy*> devices;
  for (const std::unique_ptr<LayerStudy>& one : layer_studies) devices.push_back(one.get());
  PartialResults partial(folder, PartialResults::Start::fresh, "{}");
  reset_peak_memory();
  const auto start = Clock::now();
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
  if (options.device.kind == DeviceKind::cuda) timing.bandwidth = measure_cuda_bandwidth(options.device.first_gpu());
  PartialResults::discard(folder);
  return timing;
}

}  // namespace

StudyBenchReport bench_study(const std::string& path, const std::string& folder, const StudyBenchOptions& options) {
  std::vector<DumpReader> dumps;
  dumps.emplace_back(path);
  StudyBenchReport report;
  report.shape = dumps[0].info().shape;
  report.dump = time_dump(path, folder, dumps, options);  // first, because LibTorch would add to the peak memory
  report.num_tokens = dumps[0].info().samples[0].num_tokens;
  report.num_queries = static_cast<std::int64_t>(dumps[0].info().samples[0].query_positions.size());
  report.device = report.dump.device;
  report.timings.push_back(time_layer(dumps[0], options, 0));
  if (options.sweep_points > 0) report.timings.push_back(time_layer(dumps[0], options, options.sweep_points));
  return report;
}

}  // namespace attest
