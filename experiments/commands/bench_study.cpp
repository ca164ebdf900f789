// attest bench study: speed of the study, compared with an eager LibTorch implementation.
#include <fmt/core.h>

#include <iostream>
#include <memory>

#include "dumps/base/error.h"
#include "dumps/base/temporary_folder.h"
#include "dumps/base/text_parts.h"
#include "dumps/synthetic/dump.h"
#include "experiments/bench/study/bench_report.h"
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
