// Runs, checks and times the study of one layer and of a whole dump.
#include "experiments/bench/study/study_bench.h"

#include <fmt/core.h>

#include <chrono>

#include "analysis/layer/make_layer_study.h"
#include "analysis/torch/torch_peer.h"
#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "experiments/bench/study/seconds_since.h"

namespace attest {
namespace {

LayerTiming time_layer(const DumpReader& dump, const StudyBenchOptions& options, int sweep_points) {
  const Study study = timed_study(options.selectors, sweep_points);
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
    if (i == 0) timing.agreement = agreement_of(study, results, result.results);
    timing.peer_seconds.push_back(result.seconds);
  }
  for (int i = 0; i < options.repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
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

}  // namespace

StudyBenchReport bench_study(const std::string& path, const std::string& folder, const StudyBenchOptions& options) {
  std::vector<DumpReader> dumps;
  dumps.emplace_back(path);
  StudyBenchReport report;
  report.shape = dumps[0].info().shape;
  report.dump = time_dump(path, folder, options);  // first, because LibTorch would add to the peak memory
  report.num_tokens = dumps[0].info().samples[0].num_tokens;
  report.num_queries = static_cast<std::int64_t>(dumps[0].info().samples[0].query_positions.size());
  report.device = report.dump.device;
  report.timings.push_back(time_layer(dumps[0], options, 0));
  if (options.sweep_points > 0) report.timings.push_back(time_layer(dumps[0], options, options.sweep_points));
  return report;
}

}  // namespace attest
