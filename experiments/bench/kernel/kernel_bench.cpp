// Loops over layers, lengths, batches and planned measurements.
#include "experiments/bench/kernel/kernel_bench.h"

#include <fmt/core.h>

#include <map>
#include <optional>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "experiments/bench/kernel/kernel_layers.h"

namespace attest {
namespace {

/// Collects what was left out: one line for each reason, with the cases that it concerns.
class LeftOut {
 public:
  void add(const std::string& method, const std::string& reason, const std::string& where) {
    auto& cases = cases_[{method, reason}];
    if (cases.count++ == 0) cases.first = where;
  }
  std::vector<KernelLeftOut> lines() const {
    std::vector<KernelLeftOut> lines;
    for (const auto& [what, cases] : cases_) {
      std::string reason = fmt::format("{} ({}", what.second, cases.first);
      if (cases.count > 1) reason += fmt::format(", and {} more", cases.count - 1);
      lines.push_back({.method = what.first, .reason = reason + ")"});
    }
    return lines;
  }

 private:
  struct Cases {
    int count = 0;
    std::string first;
  };
  std::map<std::pair<std::string, std::string>, Cases> cases_;
};

/// The inputs of a step as the report names them.
struct Place {
  KernelInputs inputs;
  std::optional<int> layer;
  std::string sample;
  bool tiled = false;

  std::string text() const {
    std::string text = fmt::format("{} tokens, batch {}", inputs.length, inputs.batch);
    if (layer) text += fmt::format(", layer {} of '{}'", *layer, sample);
    return text;
  }
};

KernelMeasurement measurement_of(const PlannedKernel& planned, const Place& place, KernelResult&& result) {
  const KernelSpec& spec = planned.spec;
  KernelMeasurement m;
  static_cast<KernelResult&>(m) = std::move(result);
  m.experiments = planned.experiments;
  m.method = spec.method;
  m.length = place.inputs.length;
  m.batch = place.inputs.batch;
  m.layer = place.layer;
  m.sample = place.sample;
  m.tiled = place.tiled;
  m.scan = spec.scan;
  m.rule = spec.rule;
  m.launches = spec.launches;
  return m;
}

class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, const KernelBenchObserver& observer,
              const std::atomic<bool>& interrupted)
      : options_(options), observer_(observer), interrupted_(interrupted) {}

  KernelBenchRun run(const std::function<std::unique_ptr<KernelSession>()>& make_session) {
    report_.seed = options_.seed;
    std::exception_ptr ended_by;
    try {
      if (options_.dump.empty())
        run_generated(make_session);
      else
        run_dump(make_session);
    } catch (const DeviceError& error) {
      ended_by = leave_out_the_rest(error);
    } catch (const Interrupted& error) {
      ended_by = leave_out_the_rest(error);
    }
    for (KernelLeftOut& line : left_out_.lines()) report_.left_out.push_back(std::move(line));
    if (report_.measurements.empty())
      throw DeviceError(
          fmt::format("bench kernel: nothing could be measured: {}",
                      report_.left_out.empty() ? "no measurement was asked for" : report_.left_out.back().reason));
    for (const KernelLeftOut& line : report_.left_out)
      observer_.notice(fmt::format("left out: {}: {}", line.method, line.reason));
    return {std::move(report_), ended_by};
  }

 private:
  /// The error with what is reported in spite of it. Rethrows it if that is nothing.
  template <class Reason>
  std::exception_ptr leave_out_the_rest(const Reason& reason) {
    if (report_.measurements.empty()) throw;
    report_.left_out.push_back(
        {.method = "all", .reason = fmt::format("{} of {} measurements: {}", total_ - done_, total_, reason.what())});
    return std::make_exception_ptr(Reason(
        fmt::format("{}; {} of {} measurements are reported", reason.what(), report_.measurements.size(), total_)));
  }

  void run_generated(const std::function<std::unique_ptr<KernelSession>()>& make_session) {
    set_shape(options_.shape, options_.element_type);
    count_work(1);
    session_ = make_session();
    for_cases([&](const KernelInputs& inputs) {
      measure_at({.inputs = inputs, .layer = {}, .sample = {}, .tiled = false}, true,
                 [&] { session_->generate(inputs, options_.seed); });
    });
  }

  void run_dump(const std::function<std::unique_ptr<KernelSession>()>& make_session) {
    const DumpReader dump(options_.dump);
    const BenchedLayers chosen = benched_layers(dump, options_);
    report_.left_out = chosen.left_out;
    set_shape(dump.info().shape, chosen.element_type);
    report_.data = {.source = "dump",
                    .path = options_.dump,
                    .xxh64_of_1mib = content_hashes({options_.dump}, options_.threads)[0],
                    .model = dump.info().model};
    count_work(chosen.layers.size());
    session_ = make_session();
    AttentionLayer layer;
    for (const BenchedLayer& which : chosen.layers) {
      read_benched_layer(dump, which, options_.threads, layer);
      const bool first = &which == &chosen.layers.front();
      for_cases([&](const KernelInputs& inputs) {
        measure_at({.inputs = inputs,
                    .layer = which.layer,
                    .sample = dump.info().samples[which.sample].name,
                    .tiled = inputs.length > layer.query_positions[0] + 1},
                   first, [&] { session_->load(inputs, layer); });
      });
    }
  }

  void set_shape(const AttentionShape& shape, ElementType type) {
    shape_ = shape;
    type_ = type;
    report_.shape = {.num_query_heads = shape.num_query_heads,
                     .num_kv_heads = shape.num_kv_heads,
                     .head_dim = shape.head_dim,
                     .value_dim = shape.value_dim,
                     .element_type = std::string(name_of(type))};
  }

  template <class Each>
  void for_cases(Each&& each) const {
    for (const std::int64_t length : options_.plan.lengths)
      for (const int batch : options_.plan.batches)
        each(KernelInputs{.shape = shape_, .element_type = type_, .length = length, .batch = batch});
  }

  /// Dense methods are measured on the first layer alone.
  std::vector<PlannedKernel> plan_of(const KernelInputs& inputs, bool first) const {
    std::vector<PlannedKernel> plan = planned_kernels(options_.plan, inputs.length, inputs.batch);
    if (!first) std::erase_if(plan, [](const PlannedKernel& planned) { return planned.dense; });
    return plan;
  }

  void count_work(std::size_t layers) {
    for_cases([&](const KernelInputs& inputs) {
      total_ += plan_of(inputs, true).size() + (layers - 1) * plan_of(inputs, false).size();
    });
    observer_.progress(0, total_);
  }

  template <class Prepare>
  void measure_at(const Place& place, bool first, Prepare&& prepare) {
    const std::vector<PlannedKernel> plan = plan_of(place.inputs, first);
    if (plan.empty()) return;
    try {
      prepare();
    } catch (const NotMeasurable& reason) {
      left_out_.add("all", reason.what(), place.text());
      done_ += plan.size();
      return;
    }
    for (const PlannedKernel& planned : plan) {
      if (interrupted_) throw Interrupted("interrupted");
      try {
        report_.measurements.push_back(measurement_of(planned, place, session_->measure(planned.spec)));
        report_.machine = session_->machine();  // now: after an error of the GPU it could not be asked
      } catch (const NotMeasurable& reason) {
        left_out_.add(planned.spec.method, reason.what(), place.text());
      }
      observer_.progress(++done_, total_);
    }
  }

  const KernelBenchOptions& options_;
  const KernelBenchObserver& observer_;
  const std::atomic<bool>& interrupted_;
  AttentionShape shape_;
  ElementType type_ = ElementType::float16;
  std::size_t done_ = 0, total_ = 0;
  LeftOut left_out_;
  KernelReport report_;
  std::unique_ptr<KernelSession> session_;
};

}  // namespace

KernelBenchRun bench_kernels(const KernelBenchOptions& options,
                             const std::function<std::unique_ptr<KernelSession>()>& make_session,
                             const KernelBenchObserver& observer, const std::atomic<bool>& interrupted) {
  return KernelBench(options, observer, interrupted).run(make_session);
}

}  // namespace attest
