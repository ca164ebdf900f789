// attest bench study: speed of the study, compared with an eager LibTorch implementation.
#include <fmt/core.h>

#include <iostream>
#include <memory>

#include "analysis/statistics/quantile.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/temporary_folder.h"
#include "dumps/base/text_parts.h"
#include "dumps/synthetic/dump.h"
#include "experiments/bench/study/study_bench.h"
#include "experiments/bench/study/study_scaling.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

struct StudyBenchCommand {
  std::string path;
  SyntheticOptions dump{.shape = {.num_query_heads = 32, .num_kv_heads = 8, .head_dim = 128, .value_dim = 128},
                        .num_layers = 2,
                        .num_tokens = 32768,
                        .num_queries = 4};
  StudyBenchOptions bench;
  bool no_peer = false, scaling = false;
};

/// GPU time by stage, and the share of the copy bandwidth (of memory or bus) that each stage reaches. Selectors run two
/// at a time, so that stages last longer than alone, and their times add up to more than the GPU was busy.
std::string stages_text(const DumpTiming& dump) {
  std::string text = fmt::format(
      "GPU busy {:.3f} s beside the copies from the host; copy bandwidth {:.0f} GB/s within its memory, {:.1f} GB/s "
      "from the host\n",
      dump.gpu_busy_seconds(), dump.bandwidth.device_copy / 1e9, dump.bandwidth.from_host / 1e9);
  text +=
      fmt::format("{:<24} {:>9} {:>16} {:>20}\n", "stage (two at a time)", "s", "least GB moved", "of copy bandwidth");
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
      "\nwhole dump: {}, {:.1f} MiB; study {:.3f} s; reading the file {:.3f} s by one thread ({:.2f}x), {:.3f} "
      "s by all ({:.2f}x); "
      "peak memory {:.0f} MiB after the first layer, {:.0f} MiB at the end\n",
      counted(dump.layers, "layer"), static_cast<double>(dump.file_bytes) / kMebi, dump.study_seconds,
      dump.read_seconds, dump.study_seconds / dump.read_seconds, dump.parallel_read_seconds,
      dump.study_seconds / dump.parallel_read_seconds, static_cast<double>(dump.memory_after_first) / kMebi,
      static_cast<double>(dump.memory_at_end) / kMebi);
  return dump.stages.empty() ? text : text + stages_text(dump);
}

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

Json json_of(const std::vector<StageTime>& stages) {
  Json array = Json::array();
  for (const StageTime& stage : stages)
    if (stage.name != kBusyStage)
      array.push_back({{"name", stage.name}, {"seconds", stage.seconds}, {"least_bytes", stage.bytes}});
  return array;
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

void run_scaling(const StudyBenchCommand& options, const GlobalOptions& global) {
  if (!options.path.empty()) throw UsageError("--scaling makes its own dumps: leave DUMP out");
  const TemporaryFolder folder(system_temporary_folder());
  const std::vector<ScalingRow> rows = bench_scaling(options.dump, folder.path().string(), options.bench);
  std::cout << (global.json ? json_of(rows).dump(2) + "\n" : text_of(rows, options.dump.num_layers));
}

/// A list of names is cut at its commas; a selector's options have commas of their own.
std::vector<std::string> single_selectors(const std::vector<std::string>& texts) {
  std::vector<std::string> found;
  for (const std::string& text : texts) {
    const auto items = text.find(':') == std::string::npos ? split(text, ',') : std::vector<std::string_view>{text};
    found.insert(found.end(), items.begin(), items.end());
  }
  return found;
}

void run_bench_study(StudyBenchCommand options, const GlobalOptions& global) {
  options.bench.device = global.resolved_device();
  options.bench.selectors = single_selectors(options.bench.selectors);
  options.bench.threads = global.thread_count();
  options.dump.seed = global.seed;
  if (options.scaling) return run_scaling(options, global);
  if (options.no_peer) options.bench.peer_repeats = 0;
  const TemporaryFolder folder(system_temporary_folder());
  if (options.path.empty()) {
    options.path = (folder.path() / "dump.h5").string();
    write_synthetic_dump(options.dump, options.path, false, global.thread_count());
  }
  const StudyBenchReport report = bench_study(options.path, (folder.path() / "partial").string(), options.bench);
  std::cout << (global.json ? json_of(report).dump(2) + "\n" : text_of(report));
}

}  // namespace

void add_bench_study(Command& bench, const GlobalOptions& global) {
  Command& study = bench.add_command("study", "The study against an eager LibTorch implementation of it, in one run");
  auto options = std::make_shared<StudyBenchCommand>();
  study.option("DUMP", options->path,
               "Dump to time; default: a synthetic one of Llama-3.1-8B's shape, generated for this run");
  Option& tokens = study.option("--tokens", options->dump.num_tokens, "Tokens of the synthetic dump");
  tokens.takes(whole_number(1, kMaxTokens)).shows_default();
  Option& queries = study.option("--queries", options->dump.num_queries, "Queries of the synthetic dump");
  queries.takes(whole_number(1, kMaxTokens)).shows_default();
  Option& layers = study.option("--layers", options->dump.num_layers, "Layers of the synthetic dump");
  layers.takes(whole_number(1, kMaxCount)).shows_default();
  study.option("--selector", options->bench.selectors, "Names with commas between them, or NAME:option=value,...")
      .takes(text_that_is("a list such as exact,ffd, or a selector with options"))
      .shows_default();
  Option& sweep_points =
      study.option("--sweep-points", options->bench.sweep_points, "Settings per selector of the sweep; 0: no sweep");
  sweep_points.takes(whole_number(0, 1000)).shows_default();
  study.option("--repeats", options->bench.repeats, "Timed runs; the median is reported")
      .takes(whole_number(1, 1000))
      .shows_default();
  Option& peer_repeats = study.option("--peer-repeats", options->bench.peer_repeats, "Timed runs of the LibTorch peer");
  peer_repeats.takes(whole_number(1, 1000)).shows_default();
  Option& no_peer =
      study.flag("--no-peer", options->no_peer, "Leave the LibTorch peer, and the comparison with it, out");
  study.flag("--scaling", options->scaling,
             "Instead: time and memory of the study of dumps from 4096 tokens and 4 queries up to --tokens (default: "
             "262144) and --queries (64), in steps of four");
  study.on_run([options, &tokens, &queries, &layers, &sweep_points, &peer_repeats, &no_peer, &global] {
    if (!options->path.empty() && !options->scaling)
      for (const Option* option : {&tokens, &queries, &layers})
        if (option->is_given())
          throw UsageError(fmt::format("{} is of the synthetic dump, and DUMP is given", option->name()));
    if (options->scaling)
      for (const Option* option : {&sweep_points, &peer_repeats, &no_peer})
        if (option->is_given())
          throw UsageError(fmt::format("{} has no effect on --scaling, which times whole dumps alone", option->name()));
    if (options->no_peer && peer_repeats.is_given())
      throw UsageError("--peer-repeats is of the LibTorch peer, which --no-peer leaves out");
    if (options->scaling && !tokens.is_given()) options->dump.num_tokens = 262144;
    if (options->scaling && !queries.is_given()) options->dump.num_queries = 64;
    run_bench_study(*options, global);
  });
}

}  // namespace attest
