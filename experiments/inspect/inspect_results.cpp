// Results files and unfinished studies as JSON, and as text made from that JSON.
#include "experiments/inspect/inspect_results.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "analysis/results/axes.h"
#include "analysis/run/input_hashes.h"
#include "dumps/base/byte_size.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "dumps/base/printable.h"
#include "dumps/format/file_format.h"
#include "dumps/inspect/inspect.h"
#include "dumps/inspect/text_table.h"
#include "experiments/study_view/words.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

/// JSON from an attribute of an untrusted file; null if it is none.
Json parsed(const std::string& text) { return parsed_json(text).value_or(nullptr); }

/// The string at `key`, made safe for a terminal; "" if there is none.
std::string string_at(const Json& object, const char* key) { return printable(object[key].text_or("")); }

Json dump_json(const ResultsFile& results, std::size_t d) {
  const StudyDump& dump = results.study().dumps[d];
  Json samples = Json::array();
  for (std::size_t s = 0; s < dump.samples.size(); ++s) {
    const StudySample& sample = dump.samples[s];
    Json left_out = Json::array();
    for (std::size_t y = 0; y < sample.layers.size(); ++y) {
      bool missing = false;
      for (std::size_t i = 0; i < results.study().selectors.size(); ++i) {
        const std::vector<std::uint8_t>& done = results.done(d, s, i);  // empty for a selector that the sample lacks
        missing = missing || (y < done.size() && done[y] == 0);
      }
      if (missing) left_out.push_back(sample.layers[y]);
    }
    samples.push_back({{"name", sample.name},
                       {"task", sample.task},
                       {"num_tokens", sample.num_tokens},
                       {"query_positions", sample.query_positions},
                       {"layers", sample.layers},
                       {"layers_left_out", left_out}});
  }
  return {{"path", dump.path},
          {"model", dump.model},
          {"engine", text_or_null(dump.engine)},
          {"kv_cache", text_or_null(dump.kv_cache)},
          {"num_layers", dump.num_layers},
          {"num_query_heads", dump.shape.num_query_heads},
          {"num_kv_heads", dump.shape.num_kv_heads},
          {"head_dim", dump.shape.head_dim},
          {"value_dim", dump.shape.value_dim},
          {"samples", samples}};
}

Json selectors_json(const ResultsFile& results) {
  Json list = Json::array();
  for (std::size_t i = 0; i < results.study().selectors.size(); ++i) {
    const StudySelector& selector = results.study().selectors[i];
    std::vector<double> values;
    for (const Setting& setting : selector.grid) values.push_back(setting.value);
    std::set<int> dense;
    for (std::size_t d = 0; d < results.study().dumps.size(); ++d)
      for (std::size_t s = 0; s < results.study().dumps[d].samples.size(); ++s) {
        const std::vector<std::uint8_t>& exact = results.dense(d, s, i);
        for (std::size_t y = 0; y < exact.size(); ++y)
          if (exact[y] != 0) dense.insert(results.study().dumps[d].samples[s].layers[y]);
      }
    list.push_back({{"label", selector.label},
                    {"selector", selector.name},
                    {"setting", name_of(selector.kind)},
                    {"settings", list_of_numbers(values)},
                    {"setting_labels", selector.setting_labels},
                    {"options", parsed(selector.options_json)},
                    {"dense_layers", std::vector<int>(dense.begin(), dense.end())}});
  }
  return list;
}

/// Every metric of the file with its axes and the labels of the selectors that have it in some sample.
Json metrics_json(const ResultsFile& results) {
  const Study& study = results.study();
  Json list = Json::array();
  const auto add = [&](std::size_t d, std::size_t s, std::optional<std::size_t> i, const std::string& metric) {
    const std::string label = i ? study.selectors[*i].label : std::string(kScoresGroup);
    auto at = std::ranges::find_if(list.elements(), [&](const Json& entry) { return entry["name"] == metric; });
    if (at == list.elements().end()) {
      list.push_back({{"name", metric}, {"axes", axis_names(results.axes(d, s, i, metric))}, {"of", Json::array()}});
      at = list.elements().end() - 1;
    }
    Json& labels = (*at)["of"];
    if (std::ranges::find(labels, Json(label)) == labels.end()) labels.push_back(label);
  };
  for (std::size_t d = 0; d < study.dumps.size(); ++d) {
    for (std::size_t s = 0; s < study.dumps[d].samples.size(); ++s) {
      for (const std::string& metric : results.score_metrics(d, s)) add(d, s, std::nullopt, metric);
      for (std::size_t i = 0; i < study.selectors.size(); ++i)
        for (const std::string& metric : results.metrics(d, s, i)) add(d, s, i, metric);
    }
  }
  return list;
}

std::string joined(const Json& words, std::size_t maximum) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == maximum) return text + fmt::format(", ... ({} in all)", words.size());
    text += (i > 0 ? ", " : "") + printable(words[i].text());
  }
  return text;
}

std::string layers_text(const Json& layers) { return ranges_text(layers.as<std::vector<std::int64_t>>()); }

/// The options that differ from their defaults: "rule=topk,gqa=per_head"; "-" if none does.
std::string options_text(const Json& selector) {
  std::map<std::string, std::string> defaults;  // empty for a selector that this program does not know
  const std::string& name = selector["selector"].text();
  if (find_selector(name) != nullptr) {
    const std::unique_ptr<Selector> standard = make_selector({name, name, {}});
    for (const OptionValue& option : standard->options()) defaults[option.name] = option.value;
  }
  std::string text;
  if (!selector["options"].is_object()) return "-";
  for (const auto& [option, value] : selector["options"].members()) {
    const std::string given = value.is_text() ? value.text() : value.dump();
    const auto standard = defaults.find(option);
    if (standard != defaults.end() && standard->second == given) continue;
    text += (text.empty() ? "" : ",") + printable(option) + "=" + printable(given);
  }
  return text.empty() ? "-" : text;
}

std::string manifest_text(const Json& manifest) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<10}{}\n", name, value);
  };
  if (!manifest.is_object() || manifest.empty()) return "  has no manifest\n";
  const Json& program = manifest["program"];
  line("made by", fmt::format("{} {}, commit {}", string_at(program, "name"), string_at(program, "version"),
                              string_at(program, "git_commit")));
  const Json& words = manifest["command_line"];
  if (std::ranges::all_of(words, &Json::is_text)) {
    std::string command;
    for (const Json& word : words) command += (command.empty() ? "" : " ") + printable(word.text());
    line("command", command);
  }
  line("device", string_at(manifest, "device"));
  line("precision", string_at(manifest, "precision"));
  line("time", fmt::format("{} to {}", string_at(manifest, "start_time"), string_at(manifest, "end_time")));
  for (const Json& input : manifest["inputs"]) {
    if (!input.is_object()) continue;
    const Json& bytes = input["bytes"];
    line("input", fmt::format("{}, {}, {} {}", string_at(input, "path"),
                              bytes.is_whole() ? byte_size_text(bytes.as<std::uint64_t>()) : "size unknown",
                              kContentHashName, string_at(input, kContentHashName)));
  }
  return text;
}

std::string samples_text(const Json& dump) {
  TextTable table({"sample", "task", "tokens", "queries", "at positions", "layers", "left out"});
  for (const Json& sample : dump["samples"])
    table.add({string_at(sample, "name"), string_at(sample, "task"), sample["num_tokens"].dump(),
               std::to_string(sample["query_positions"].size()),
               ranges_text(sample["query_positions"].as<std::vector<std::int64_t>>(), 3), layers_text(sample["layers"]),
               sample["layers_left_out"].empty() ? "-" : layers_text(sample["layers_left_out"])});
  const auto number = [&](const char* name, const char* noun) { return counted(dump[name].whole(), noun); };
  const std::string engine = string_at(dump, "engine"), cache = string_at(dump, "kv_cache");
  const std::string captured = engine.empty() && cache.empty() ? "" : engine_in_words(engine, cache) + "\n";
  return fmt::format("{}: {}, {}, {}, {}, head_dim {}, value_dim {}\n{}{}", string_at(dump, "path"),
                     string_at(dump, "model"), number("num_layers", "layer"), number("num_query_heads", "query head"),
                     number("num_kv_heads", "KV head"), dump["head_dim"].dump(), dump["value_dim"].dump(), captured,
                     table.text());
}

}  // namespace

Json summary_json(const ResultsFile& results) {
  Json dumps = Json::array();
  for (std::size_t d = 0; d < results.study().dumps.size(); ++d) dumps.push_back(dump_json(results, d));
  return {{"path", results.path()},
          {"format", kStudyFormat},
          {"format_version", kStudyVersion},
          {"file_bytes", std::filesystem::file_size(results.path())},
          {"dumps", dumps},
          {"selectors", selectors_json(results)},
          {"lambdas", list_of_numbers(results.study().lambdas)},
          {"metrics", metrics_json(results)},
          {"manifest", parsed(results.manifest())}};
}

std::string summary_text(const ResultsFile& results) {
  const Json document = summary_json(results);
  std::string text =
      fmt::format("{}: study results, format version {}, {}\n{}", printable(results.path()), kStudyVersion,
                  byte_size_text(document["file_bytes"].unsigned_whole()), manifest_text(document["manifest"]));
  for (const Json& dump : document["dumps"]) text += "\n" + samples_text(dump);
  TextTable selectors({"selector", "is", "setting", "at", "options that differ from the default"});
  for (const Json& selector : document["selectors"])
    selectors.add({string_at(selector, "label"), string_at(selector, "selector"), string_at(selector, "setting"),
                   selector["setting"] == "none" ? "-" : joined(selector["setting_labels"], 6),
                   options_text(selector)});
  std::map<std::string, std::vector<std::string>> metrics;  // names by axes and selectors
  for (const Json& metric : document["metrics"])
    metrics[fmt::format("[{}] of {}", join(metric["axes"].as<std::vector<std::string>>(), ", "),
                        joined(metric["of"], 20))]
        .push_back(string_at(metric, "name"));
  text += "\n" + selectors.text() + "\nmetrics\n";
  for (const auto& [kind, names] : metrics) text += fmt::format("  {}\n    {}\n", kind, join(names, ", "));
  return text;
}

Json check_json(const ResultsFile&, const ResultsCheck& check) {
  Json metrics = Json::array();
  for (const MetricCheck& metric : check.metrics)
    metrics.push_back({{"of", metric.label},
                       {"metric", metric.metric},
                       {"cells", metric.cells},
                       {"nan", metric.nan},
                       {"infinite", metric.infinite},
                       {"minimum", number_or_text(metric.minimum)},
                       {"maximum", number_or_text(metric.maximum)},
                       {"bad", metric.bad},
                       {"first_bad", text_or_null(metric.first_bad)}});
  return {{"bad_cells", check.num_bad()}, {"metrics", metrics}};
}

std::string check_text(const ResultsFile&, const ResultsCheck& check) {
  TextTable table({"of", "metric", "cells", "NaN", "infinite", "from", "to", "bad"});
  std::string faults;
  std::int64_t cells = 0;
  for (const MetricCheck& metric : check.metrics) {
    cells += metric.cells;
    if (metric.bad > 0) faults += fmt::format("{} ({} bad)\n", metric.first_bad, metric.bad);
    table.add({printable(metric.label), printable(metric.metric), std::to_string(metric.cells),
               std::to_string(metric.nan), std::to_string(metric.infinite), float_text(metric.minimum),
               float_text(metric.maximum), std::to_string(metric.bad)});
  }
  const std::string bad = check.num_bad() == 0 ? "none" : std::to_string(check.num_bad());
  return fmt::format("{}\n{}{} of {} cells of computed layers hold what their metric does not allow\n", table.text(),
                     faults, bad, cells);
}

Json status_json(const PartialStatus& status) {
  Json samples = Json::array();
  for (const PartialStatus::Sample& sample : status.samples)
    samples.push_back(
        {{"dump", sample.dump}, {"name", sample.name}, {"layers", sample.layers}, {"finished", sample.finished}});
  return {{"path", status.folder},
          {"format", kPartialStudyFormat},
          {"begun", status.begun},
          {"program", status.program},
          {"device", status.device},
          {"selectors", status.selectors},
          {"layers", status.num_layers()},
          {"finished_layers", status.num_finished()},
          {"samples", samples}};
}

std::string status_text(const PartialStatus& status) {
  TextTable table({"dump", "sample", "layers", "finished"});
  for (const PartialStatus::Sample& sample : status.samples)
    table.add({printable(sample.dump), printable(sample.name), ranges_text(sample.layers),
               sample.finished.empty() ? "none" : ranges_text(sample.finished)});
  std::vector<std::string> labels;
  for (const std::string& label : status.selectors) labels.push_back(printable(label));
  return fmt::format(
      "{}: an unfinished study, begun {} by attest {} on {}\n  selectors {}\n\n{}\n"
      "{} of {} layers are finished. The same 'attest run' command with --resume goes on; --force starts over.\n",
      printable(status.folder), printable(status.begun), printable(status.program), printable(status.device),
      join(labels, ", "), table.text(), status.num_finished(), status.num_layers());
}

}  // namespace attest
