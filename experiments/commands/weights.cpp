// attest weights: head weights of a model, averaged over the prompts of dumps with head gradients.
#include <fmt/core.h>

#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "analysis/run/input_hashes.h"
#include "analysis/study/study_plan.h"
#include "dumps/base/atomic_file.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"
#include "experiments/run/study_run.h"
#include "experiments/weights/averaged_weights.h"

namespace attest {
namespace {

struct WeightsOptions {
  std::vector<std::string> dumps;
  std::string output, samples;
  int keep_dense = 0;
  bool force = false;
};

void run_weights(const WeightsOptions& options, const GlobalOptions& global) {
  check_output_file(options.output, options.dumps, {.replace = options.force});
  check_dumps(options.dumps);
  std::vector<DumpReader> dumps;
  std::vector<const DumpInfo*> infos;
  for (const std::string& path : options.dumps) dumps.emplace_back(path);
  for (const DumpReader& dump : dumps) infos.push_back(&dump.info());
  Study chosen;
  if (!options.samples.empty()) chosen.choice.samples = parse_names(options.samples);
  const AveragedWeights found = averaged_weights(dumps, plan_study(infos, chosen));
  const std::string dense_heads = options.keep_dense > 0 ? dense_heads_text(found, options.keep_dense) : "";
  Json document = document_of(found, options.dumps, content_hashes(options.dumps, global.thread_count()));
  write_atomically(options.output, document.dump(1) + "\n", {.overwrite = options.force});
  if (global.json) {
    if (!dense_heads.empty()) document["dense_heads"] = dense_heads;
    std::cout << document.dump(2) << '\n';
    return;
  }
  std::cout << heaviest_text(found)
            << fmt::format("{}: weights of {} of '{}', averaged over {}\n", printable(options.output),
                           counted(std::ssize(found.layers), "layer"), printable(found.model->model),
                           counted(found.prompts, "prompt"));
  if (!dense_heads.empty())
    std::cout << fmt::format(
        "dense_heads={}: the option with which a selector leaves the {} heaviest of its {} KV heads exact\n",
        dense_heads, options.keep_dense,
        found.layers.size() * static_cast<std::size_t>(found.model->shape.num_kv_heads));
}

}  // namespace

void add_weights(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<WeightsOptions>();
  Command& command =
      program.add_command("weights", "What each head means for the answer, averaged over dumps with head gradients");
  command.option("DUMP", options->dumps, "Attention dumps of one model, captured with --head-weights").required();
  command.option("-o,--output", options->output, "File of the weights, for 'attest run --weights'")
      .required()
      .takes(file_name())
      .type("FILE");
  command.option("--samples", options->samples, "Samples by name: a,b (default all)")
      .joined()
      .takes(text_that_is("a list such as a,b"))
      .type("NAMES");
  command
      .option("--keep-dense", options->keep_dense,
              "Also print the option dense_heads for the N KV heads that weigh most")
      .takes(whole_number(1, std::numeric_limits<int>::max()))
      .type("N");
  command.flag("--force", options->force, "Replace the file if it is there");
  command.on_run([options, &global] { run_weights(*options, global); });
}

}  // namespace attest
