// attest weights: head weights of a model, averaged over the prompts of dumps with head gradients.
#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/metrics/output_fidelity.h"
#include "analysis/run/input_hashes.h"
#include "analysis/study/head_weights.h"
#include "analysis/study/study_plan.h"
#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"
#include "experiments/cli/options/output_file.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/cli/output/aligned_text.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/cli/process/version.h"
#include "experiments/commands/commands.h"
#include "experiments/run/study_run.h"
#include "experiments/study_view/head_shares.h"

namespace attest {
namespace {

struct WeightsOptions {
  std::vector<std::string> dumps;
  std::string output, samples;
  int keep_dense = 0;
  bool force = false;
};

/// Sums over prompts.
struct LayerSums {
  int prompts = 0;
  std::vector<double> weights;  ///< [Hq]

  void add(const std::vector<double>& more) {
    weights.resize(more.size());
    for (std::size_t h = 0; h < more.size(); ++h) weights[h] += more[h];
    ++prompts;
  }
  double mean(std::size_t head) const { return weights[head] / prompts; }
};

struct WeightsOfModel {
  const DumpInfo* model = nullptr;
  int prompts = 0;
  std::map<int, LayerSums> layers;
};

void require_same_model(const DumpInfo& first, const DumpInfo& other) {
  const auto describe = [](const DumpInfo& dump) {
    return fmt::format("'{}' with {} layers of {} query heads", excerpt(dump.model), dump.num_layers,
                       dump.shape.num_query_heads);
  };
  if (first.model != other.model || first.num_layers != other.num_layers ||
      first.shape.num_query_heads != other.shape.num_query_heads)
    throw InputError(fmt::format("{}: is of {}, expected the model of {}, {}", other.path, describe(other), first.path,
                                 describe(first)));
}

WeightsOfModel average(const std::vector<DumpReader>& dumps, const StudyPlan& plan) {
  WeightsOfModel found{.model = &dumps.front().info(), .layers = {}};
  for (std::size_t d = 0; d < dumps.size(); ++d) require_same_model(*found.model, dumps[d].info());
  for (std::size_t d = 0; d < dumps.size(); ++d)
    for (const PlannedSample& sample : plan.places[d]) {
      bool counts = false;
      for (const int layer : dumps[d].info().samples[sample.index].layers) {
        const std::vector<float>& gradient = dumps[d].layer_info(sample.index, layer).head_gradient;
        if (gradient.empty()) continue;
        found.layers[layer].add(head_weights(gradient, found.model->shape.num_query_heads));
        counts = true;
      }
      found.prompts += counts ? 1 : 0;
    }
  if (found.layers.empty())
    throw InputError(
        fmt::format("{}: no layer has head gradients, which 'attest capture --head-weights' adds", found.model->path));
  return found;
}

Json document_of(const WeightsOfModel& found, const std::vector<std::string>& paths,
                 const std::vector<std::string>& hashes) {
  Json layers = Json::object(), inputs = Json::array();
  for (const auto& [layer, sums] : found.layers) {
    Json weights = Json::array();
    for (std::size_t h = 0; h < sums.weights.size(); ++h) weights.push_back(sums.mean(h));
    layers[std::to_string(layer)] = {{"prompts", sums.prompts}, {"weights", weights}};
  }
  for (std::size_t i = 0; i < paths.size(); ++i) inputs.push_back({{"path", paths[i]}, {kContentHashName, hashes[i]}});
  return {{"format", kHeadWeightsFormat},
          {"format_version", kHeadWeightsVersion},
          {"model", found.model->model},
          {"num_layers", found.model->num_layers},
          {"num_query_heads", found.model->shape.num_query_heads},
          {"prompts", found.prompts},
          {"layers", layers},
          {"program", program_version().program},
          {"inputs", inputs}};
}

/// The heads that weigh most.
std::string heaviest_text(const WeightsOfModel& found) {
  struct Head {
    double weight;
    int layer;
    std::size_t head;
  };
  constexpr std::size_t kMax = 8;
  std::vector<Head> heads;
  double sum = 0;
  for (const auto& [layer, sums] : found.layers)
    for (std::size_t h = 0; h < sums.weights.size(); ++h) {
      heads.push_back({sums.mean(h), layer, h});
      sum += sums.mean(h);
    }
  std::ranges::stable_sort(heads, std::ranges::greater{}, &Head::weight);
  heads.resize(std::min(heads.size(), kMax));
  std::vector<std::vector<std::string>> lines{{"layer", "head", "weight", "of all"}};
  for (const Head& head : heads)
    lines.push_back({std::to_string(head.layer), std::to_string(head.head), fmt::format("{:.4g}", head.weight),
                     sum > 0 ? fmt::format("{:.1f}%", 100 * head.weight / sum) : "-"});
  return aligned_text(lines, 0);
}

/// The option dense_heads of the `count` KV heads that weigh most: "7:1+5:0", in their order.
std::string dense_heads_text(const WeightsOfModel& found, int count) {
  std::map<HeadPlace, double> weights;
  for (const auto& [layer, sums] : found.layers)
    for (std::size_t h = 0; h < sums.weights.size(); ++h) weights[{layer, static_cast<int>(h)}] = sums.mean(h);
  const std::map<HeadPlace, double> squares = squared_kv_weights(weights, found.model->shape.group());
  if (std::cmp_less(squares.size(), count))
    throw UsageError(
        fmt::format("--keep-dense is {}, and the dumps have weights of {} KV heads", count, squares.size()));
  std::set<HeadPlace> heads;
  for (const auto& [place, square] : squares) heads.insert(place);
  std::vector<std::string> places;
  for (const HeadPlace& place : in_falling_order(heads, squares))
    places.push_back(fmt::format("{}:{}", place.first, place.second));
  places.resize(static_cast<std::size_t>(count));
  return join(places, "+");
}

void run_weights(const WeightsOptions& options, const GlobalOptions& global) {
  check_output_file(options.output, options.dumps, {.replace = options.force});
  check_dumps(options.dumps);
  std::vector<DumpReader> dumps;
  std::vector<const DumpInfo*> infos;
  for (const std::string& path : options.dumps) dumps.emplace_back(path);
  for (const DumpReader& dump : dumps) infos.push_back(&dump.info());
  Study chosen;
  if (!options.samples.empty()) chosen.choice.samples = parse_names(options.samples);
  const WeightsOfModel found = average(dumps, plan_study(infos, chosen));
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
