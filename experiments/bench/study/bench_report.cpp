// Reports as text and JSON.
#include "experiments/bench/study/bench_report.h"

#include <fmt/core.h>

#include <optional>

#include "analysis/statistics/quantile.h"
#include "dumps/base/join.h"
#include "experiments/bench/study/agreement.h"

namespace attest {
namespace {

/// GPU time by stage, and the share of the copy bandwidth (of memory or bus) that each stage reaches. Selectors run
/// side by side, so that stages last longer than alone, and their times add up to more than the GPU was busy.
std::string stages_text(const DumpTiming& dump) {
  std::string text = fmt::format(
      "GPU busy {:.3f} s beside the copies from the host; copy bandwidth {:.0f} GB/s within its memory, {:.1f} GB/s "
      "from the host\n",
      dump.gpu_busy_seconds(), dump.bandwidth.device_copy / 1e9, dump.bandwidth.from_host / 1e9);
  text +=
      fmt::format("{:<24} {:>9} {:>16} {:>20}\n", "stage (some together)", "s", "least GB moved", "of copy bandwidth");
  for (const StageTime& stage : dump.stages) {
    if (stage.name == kBusyStage) continue;
    const double limit = stage.name == kHostCopyStage ? dump.bandwidth.from_host : dump.bandwidth.device_copy;
    text += fmt::format("{:<24} {:>9.4f} {:>16.2f} {:>18.1f} %\n", stage.name, stage.seconds, stage.bytes / 1e9,
                        100 * stage.bytes / stage.seconds / limit);
  }
  return text;
}

std::string text_of(const DumpTiming& dump) {
  constexpr double kMebi = 1 << 20;
  std::string text = fmt::format(
      "\nwhole dump: {}, {:.1f} MiB; study {:.3f} s; reading the file {:.3f} s by one thread ({:.2f}x), {:.3f} s by "
      "all ({:.2f}x); peak memory {:.0f} MiB after the first layer, {:.0f} MiB at the end\n",
      counted(dump.layers, "layer"), static_cast<double>(dump.file_bytes) / kMebi, dump.study_seconds,
      dump.read_seconds, dump.study_seconds / dump.read_seconds, dump.parallel_read_seconds,
      dump.study_seconds / dump.parallel_read_seconds, static_cast<double>(dump.memory_after_first) / kMebi,
      static_cast<double>(dump.memory_at_end) / kMebi);
  return dump.stages.empty() ? text : text + stages_text(dump);
}

Json json_of(const std::vector<StageTime>& stages) {
  Json array = Json::array();
  for (const StageTime& stage : stages)
    if (stage.name != kBusyStage)
      array.push_back({{"name", stage.name}, {"seconds", stage.seconds}, {"least_bytes", stage.bytes}});
  return array;
}

}  // namespace

std::string text_of(const StudyBenchReport& r) {
  const double work = static_cast<double>(r.num_tokens) * static_cast<double>(r.num_queries) * r.shape.num_query_heads;
  std::string text =
      fmt::format("{}\n{} query heads, {} KV heads, head_dim {}, {} tokens, {} queries\n\n", r.device,
                  r.shape.num_query_heads, r.shape.num_kv_heads, r.shape.head_dim, r.num_tokens, r.num_queries);
  text += fmt::format("{:<20} {:>8} {:>11} {:>24} {:>12} {:>8}\n", "one layer", "settings", "median s",
                      "tokens x heads x q / s", "LibTorch s", "ratio");
  for (const LayerTiming& t : r.timings) {
    const double ours = quantile(t.seconds, 0.5), peer = quantile(t.peer_seconds, 0.5);
    text += fmt::format("{:<20} {:>8} {:>11.4f} {:>24.3g} {:>12} {:>8}\n", t.name, t.settings, ours, work / ours,
                        t.peer_seconds.empty() ? "-" : fmt::format("{:.3f}", peer),
                        t.peer_seconds.empty() ? "-" : fmt::format("{:.1f}x", peer / ours));
  }
  for (const LayerTiming& t : r.timings)
    if (t.agreement) text += fmt::format("{}: {}\n", t.name, text_of(*t.agreement));
  return text + text_of(r.dump);
}

Json json_of(const StudyBenchReport& r) {
  Json timings = Json::array();
  for (const LayerTiming& t : r.timings) {
    Json entry{{"name", t.name},
               {"settings", t.settings},
               {"seconds", t.seconds},
               {"median_seconds", quantile(t.seconds, 0.5)},
               {"stages", json_of(t.stages)}};
    if (t.agreement) {
      entry["peer_seconds"] = t.peer_seconds;
      entry["ratio"] = quantile(t.peer_seconds, 0.5) / quantile(t.seconds, 0.5);
      entry["cells_compared"] = t.agreement->cells;
      entry["cells_apart"] = t.agreement->differing;
      entry["cells_not_compared"] = t.agreement->not_compared;
      entry["metrics_not_compared"] = Json::array();
      for (const std::string& name : t.agreement->metrics_not_compared) entry["metrics_not_compared"].push_back(name);
    }
    timings.push_back(std::move(entry));
  }
  return {{"device", r.device},
          {"num_query_heads", r.shape.num_query_heads},
          {"num_kv_heads", r.shape.num_kv_heads},
          {"head_dim", r.shape.head_dim},
          {"num_tokens", r.num_tokens},
          {"num_queries", r.num_queries},
          {"one_layer", timings},
          {"dump",
           {{"layers", r.dump.layers},
            {"file_bytes", r.dump.file_bytes},
            {"study_seconds", r.dump.study_seconds},
            {"read_seconds", r.dump.read_seconds},
            {"parallel_read_seconds", r.dump.parallel_read_seconds},
            {"memory_after_first_bytes", r.dump.memory_after_first},
            {"memory_at_end_bytes", r.dump.memory_at_end},
            {"gpu_busy_seconds", r.dump.gpu_busy_seconds()},
            {"stages", json_of(r.dump.stages)},
            {"copy_bytes_per_second", r.dump.bandwidth.device_copy},
            {"copy_from_host_bytes_per_second", r.dump.bandwidth.from_host}}}};
}

std::string text_of(const std::vector<ScalingRow>& rows, int layers) {
  std::string text =
      fmt::format("study of {}, by tokens and queries\n{:>8} {:>8} {:>9} {:>10} {:>10} {:>12}\n",
                  counted(layers, "layer"), "tokens", "queries", "dump MiB", "median s", "GPU busy s", "host MiB");
  constexpr double kMebi = 1 << 20;
  for (const ScalingRow& row : rows)
    text += fmt::format("{:>8} {:>8} {:>9.1f} {:>10.4f} {:>10} {:>12.0f}\n", row.tokens, row.queries,
                        static_cast<double>(row.file_bytes) / kMebi, quantile(row.seconds, 0.5),
                        row.gpu_busy_seconds > 0 ? fmt::format("{:.4f}", row.gpu_busy_seconds) : "-",
                        static_cast<double>(row.peak_memory) / kMebi);
  return text;
}

Json json_of(const std::vector<ScalingRow>& rows) {
  Json array = Json::array();
  for (const ScalingRow& row : rows)
    array.push_back({{"num_tokens", row.tokens},
                     {"num_queries", row.queries},
                     {"file_bytes", row.file_bytes},
                     {"seconds", row.seconds},
                     {"median_seconds", quantile(row.seconds, 0.5)},
                     {"gpu_busy_seconds", row.gpu_busy_seconds},
                     {"peak_memory_bytes", row.peak_memory}});
  return {{"scaling", array}};
}

}  // namespace attest
