// attest synth: writes seeded synthetic dumps with known structure.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/synthetic/dump.h"
#include "dumps/synthetic/heads.h"
#include "experiments/cli/output/progress.h"
#include "experiments/cli/parse/checks.h"
#include "experiments/commands/commands.h"

namespace attest {
namespace {

/// Call it with the bytes done and the bytes in all.
class WritingProgress {
 public:
  explicit WritingProgress(bool quiet) : progress_("MB", quiet) {}

  void operator()(std::int64_t done, std::int64_t total) {
    constexpr std::int64_t megabyte = 1'000'000;
    const std::int64_t all = total / megabyte;
    if (all == 0) return;
    const std::int64_t whole = done == total ? all : std::min(done / megabyte, all - 1);  // the last line stands once
    progress_.show(static_cast<std::size_t>(whole), static_cast<std::size_t>(all), 0);
  }

  void end() { progress_.end(); }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Progress progress_;
  Clock::time_point start_ = Clock::now();
};

struct SynthOptions {
  std::string path;
  std::string preset;
  std::string element_type = "bfloat16";
  SyntheticOptions given;  ///< values of the options as typed, otherwise the defaults
  /// Functions that each copy one typed option from `given` over a preset.
  std::vector<std::function<void(SyntheticOptions& dump, const SyntheticOptions& given)>> typed;
  bool force = false;
};

const std::map<std::string, ElementType> kElementTypes{
    {"bfloat16", ElementType::bfloat16}, {"float16", ElementType::float16}, {"float32", ElementType::float32}};

/// Values that a preset sets. Options on the command line take precedence.
const std::map<std::string, SyntheticOptions> kPresets{
    {"llama31-8b",
     {.shape = {.num_query_heads = 32, .num_kv_heads = 8, .head_dim = 128, .value_dim = 128},
      .num_layers = 32,
      .num_tokens = 32768,
      .num_queries = 16}},
    {"gemma2-9b",
     {.shape = {.num_query_heads = 16, .num_kv_heads = 8, .head_dim = 256, .value_dim = 256},
      .num_layers = 42,
      .num_tokens = 8192,
      .num_queries = 16,
      .softmax_scale = 1.0 / 16,
      .logit_softcap = 50,
      .sliding_window = 4096,
      .global_every = 2}},
    {"mla",
     {.shape = {.num_query_heads = 16, .num_kv_heads = 1, .head_dim = 576, .value_dim = 512},
      .num_layers = 27,
      .num_tokens = 32768,
      .num_queries = 16}}};

template <class Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

/// Follows pointers to members, one after the other.
template <class Object>
auto& field(Object& object, auto... members) {
  return (object.*....*members);
}

SyntheticOptions resolve(const SynthOptions& options, const GlobalOptions& global) {
  SyntheticOptions dump = options.preset.empty() ? options.given : kPresets.at(options.preset);
  for (const auto& copy : options.typed) copy(dump, options.given);
  dump.element_type = kElementTypes.at(options.element_type);
  dump.seed = global.seed;
  return dump;
}

void run_synth(const SyntheticOptions& dump, const SynthOptions& options, const GlobalOptions& global) {
  WritingProgress progress(global.quiet);
  std::int64_t bytes = 0;
  write_synthetic_dump(dump, options.path, options.force, global.thread_count(),
                       [&](std::int64_t done, std::int64_t total) { progress(done, bytes = total); });
  progress.end();
  const double seconds = progress.seconds();
  if (global.json) {
    const Json report{{"path", options.path},
                      {"samples", dump.num_samples},
                      {"layers", dump.num_layers},
                      {"bytes", bytes},
                      {"seconds", seconds}};
    std::cout << report.dump(2) << '\n';
    return;
  }
  std::cout << fmt::format("{}: {} x {} of {} tokens, heads {}, {}, {:.1f} MB in {:.1f} s\n", printable(options.path),
                           counted(dump.num_samples, "sample"), counted(dump.num_layers, "layer"), dump.num_tokens,
                           dump.profile, name_of(dump.element_type), static_cast<double>(bytes) / 1e6, seconds);
}

}  // namespace

void add_synth(Command& program, const GlobalOptions& global) {
  auto options = std::make_shared<SynthOptions>();
  Command& command = program.add_command("synth", "Seeded synthetic dump with known structure (--seed)");
  const auto add = [&](const char* name, const char* text, auto... members) -> Option& {
    Option& option = command.option(name, field(options->given, members...), text).shows_default();
    options->typed.push_back([&option, members...](SyntheticOptions& dump, const SyntheticOptions& given) {
      if (option.is_given()) field(dump, members...) = field(given, members...);
    });
    return option;
  };
  using O = SyntheticOptions;
  options->given.num_layers = 4;  // two more than those that some selectors leave dense
  const Check count = whole_number(1, kMaxCount), count_or_none = whole_number(0, kMaxCount);
  command.option("-o,--output", options->path, "The dump").required().takes(file_name()).type("DUMP");
  command.option("--preset", options->preset, "Shape of a known model; options given beside it override it")
      .takes(one_of(names_of(kPresets)));
  add("--profile", "Mixture of heads", &O::profile).takes(one_of(profile_names()));
  add("--layers", "Layers", &O::num_layers).takes(count);
  add("--samples", "Samples", &O::num_samples).takes(count);
  add("--tokens", "Tokens of each sample", &O::num_tokens).takes(whole_number(1, kMaxTokens));
  add("--queries", "Queries of each sample, at its last positions", &O::num_queries).takes(whole_number(1, kMaxTokens));
  add("--query-heads", "Query heads", &O::shape, &AttentionShape::num_query_heads).takes(count);
  add("--kv-heads", "KV heads; they divide the query heads", &O::shape, &AttentionShape::num_kv_heads).takes(count);
  Option& head_dim = add("--head-dim", "Channels of q and k", &O::shape, &AttentionShape::head_dim).takes(count);
  Option& value_dim =
      add("--value-dim", "Channels of v, where they differ from --head-dim", &O::shape, &AttentionShape::value_dim)
          .takes(count);
  command.option("--dtype,--element-type", options->element_type, "Element type")
      .takes(one_of(names_of(kElementTypes)))
      .shows_default();
  add("--scale", "Softmax scale; 0: 1/sqrt(head dim)", &O::softmax_scale).takes(nonnegative_number());
  add("--softcap", "Soft-cap of the scores; 0: none", &O::logit_softcap).takes(nonnegative_number());
  add("--sliding-window", "Keys that a query sees; 0: all before it", &O::sliding_window)
      .takes(whole_number(0, kMaxWindow));
  Option& global_every =
      add("--global-every", "Every n-th layer ignores the window; 0: none", &O::global_every).takes(count_or_none);
  add("--spans", "Evidence spans of each sample", &O::num_spans).takes(whole_number(0, kMaxSpans));
  add("--span-tokens", "Tokens of each span", &O::span_tokens).takes(count);
  add("--sink-tokens", "First tokens that sink heads look at", &O::sink_tokens).takes(count_or_none);
  command.flag("--force", options->force, "Replace the dump if it is there");

  // Comes after --head-dim is copied: value_dim equals head_dim unless --value-dim is given.
  options->typed.push_back([&head_dim, &value_dim](SyntheticOptions& dump, const SyntheticOptions&) {
    if (head_dim.is_given() && !value_dim.is_given()) dump.shape.value_dim = dump.shape.head_dim;
  });
  command.on_run([options, &global_every, &global] {
    const SyntheticOptions dump = resolve(*options, global);
    if (global_every.is_given() && dump.global_every > 0 && dump.sliding_window == 0)
      throw UsageError("--global-every: has no effect without a --sliding-window above 0");
    run_synth(dump, *options, global);
  });
}

}  // namespace attest
