// Runs a study: checks inputs and output, computes the missing units, writes the results file.
#include "analysis/run/run_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "analysis/results/partial_results.h"
#include "analysis/results/results_file.h"
#include "analysis/run/chunk.h"
#include "analysis/run/chunk_list.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/prepared_study.h"
#include "analysis/run/results_finish.h"
#include "analysis/run/study_output.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/calibration.h"
#include "analysis/study/short_contexts.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"

namespace attest {
namespace {

/// After this time a process that its launcher has started with others, and that sees none of them, says so.
constexpr std::chrono::seconds kLonely{20};

/// A thread that waits for kLonely.
std::jthread tell_if_lonely(const PartialResults& partial, int processes, const StudyObserver& observer) {
  if (processes < 2) return {};
  return std::jthread([&partial, processes, &observer](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, stop, kLonely, [] { return false; });
    if (!stop.stop_requested() && !partial.has_seen_another())
      observer.notice(
          fmt::format("{} processes were started, but after {} s this one has seen no other in '{}': perhaps "
                      "that folder is not shared",
                      processes, kLonely.count(), partial.folder()));
  });
}

/// A study that is being run.
class StudyRun {
 public:
  StudyRun(PreparedStudy& run, PartialResults& partial, const std::atomic<bool>& stop, const StudyObserver& observer,
           RunReport& report)
      : run_(run), partial_(partial), stop_(stop), observer_(observer), report_(report) {}

  /// Computes what is missing.
  void go() {
    const std::jthread lonely = tell_if_lonely(partial_, run_.options.processes, observer_);
    with_results([&](ResultsFinish& results, InputGuard& inputs) {
      compute(results, inputs);
      finish(results, inputs);
    });
  }

  /// Computes nothing: adds the units of chunks as they come.
  void gather(ChunkList& chunks) {
    with_results([&](ResultsFinish& results, InputGuard& inputs) {
      std::set<UnitKey> units;
      const auto add = [&](const UnitKey& unit, const LayerResults& found) {
        if ((found.done || run_.study.skip_bad_layers) && units.insert(unit).second) results.add(unit, found);
        report_.progress.finished = units.size();
      };
      for (const UnitKey& unit : run_.plan.units)
        if (const std::optional<LayerResults> found = partial_.load(unit)) add(unit, *found);
      while (const std::optional<std::string> path = chunks.next(stop_)) {
        take_chunk(*path, run_, partial_, add, stop_);
        chunks.taken(*path);
        inputs.poll();
      }
      report_.missing.clear();
      for (std::size_t i = 0; i < run_.plan.units.size(); ++i)
        if (!units.contains(run_.plan.units[i])) report_.missing.push_back(i);
      if (report_.missing.empty()) return finish(results, inputs);
      report_.outcome = RunReport::Outcome::unfinished;
    });
  }

 private:
  /// Another process may finish the study, and remove its folder, at any time.
  void with_results(const std::function<void(ResultsFinish&, InputGuard&)>& call) {
    calibrate(run_.study, run_.plan, run_.readers[0], &stop_);
    if (!run_.options.take) run_.start_devices();
    InputGuard inputs(run_.inputs, partial_, *run_.hashes, stop_);
    ResultsFinish results(run_, partial_);
    tell_about_study(results.fills());
    if (!results.fills()) run_.hashes->rest();
    try {
      call(results, inputs);
    } catch (const OutputError&) {
      if (partial_.in_place()) throw;
      take_summary(results);
    }
  }

  /// In full in one process: the one that writes the results, of which there is always one.
  void tell_about_study(bool in_full) {
    std::vector<std::string> notices = run_.notices;
    std::ranges::copy(
        short_context_notices(run_.study,
                              [this](const UnitKey& unit) {
                                const std::size_t sample = run_.plan.places[unit.dump][unit.sample].index;
                                return run_.readers[unit.dump].layer_info(sample, unit.layer).sliding_window;
                              }),
        std::back_inserter(notices));
    if (notices.empty()) return;
    if (!in_full) {
      const std::string writer = partial_.holder_of_results();
      notices = {fmt::format("{} of this study {} told by {}", counted(std::ssize(notices), "warning"),
                             notices.size() == 1 ? "is" : "are", writer.empty() ? "another process" : writer)};
    }
    for (const std::string& notice : notices) observer_.notice(notice);
  }

  void compute(ResultsFinish& results, InputGuard& inputs) {
    StudyObserver guarded = observer_;
    guarded.progress = [&](const StudyProgress& progress) {
      report_.progress = progress;
      observer_.progress(progress);
      inputs.poll();
    };
    UnitQueue queue(partial_, run_.plan, run_.study.skip_bad_layers, observer_.notice);
    run_.compute(
        queue, run_.plan,
        [&](const UnitKey& unit, const LayerResults& found, UnitOrigin origin) {
          run_.take_hashes(unit, found, origin);
          results.add(unit, found);
        },
        guarded);
  }

  /// All units once more, for the file: those whose file is gone are computed again.
  void fill(ResultsFinish& results) {
    StudyObserver silent = observer_;
    silent.started = [](const std::string&) {};
    silent.progress = [](const StudyProgress&) {};
    UnitQueue queue(partial_, run_.plan, run_.study.skip_bad_layers, observer_.notice);
    run_.compute(
        queue, run_.plan, [&](const UnitKey&, const LayerResults& found, UnitOrigin) { results.add_to_file(found); },
        silent);
  }

  void finish(ResultsFinish& results, InputGuard& inputs) {
    if (!results.complete()) return take_summary(results);  // the folder is gone
    switch (results.wait_for_turn(stop_, observer_.notice)) {
      case ResultsFinish::Turn::completed:
        return take_summary(results);
      case ResultsFinish::Turn::fill:
        tell_about_study(true);
        fill(results);
        [[fallthrough]];
      case ResultsFinish::Turn::write:
        report_.summary = results.summary();
        report_.device = run_.device_text();
        results.write(report_.device, inputs, observer_.notice);
    }
  }

  /// Another process has written the results.
  void take_summary(const ResultsFinish& results) {
    const std::optional<ResultsFile> found =
        finished_results(run_.options, run_.configuration, run_.study.skip_bad_layers);
    if (!found)
      throw OutputError(
          fmt::format("'{}' was removed while the study ran, and there are no results", partial_.folder()));
    report_.outcome = RunReport::Outcome::completed_by_another_process;
    report_.device = run_.device_text();
    report_.summary = results.complete() ? results.summary() : summarize(*found, run_.options.with_dense_layers);
  }

  PreparedStudy& run_;
  PartialResults& partial_;
  const std::atomic<bool>& stop_;
  const StudyObserver& observer_;
  RunReport& report_;
};

/// Takes the results that are there already.
bool take_complete(PreparedStudy& run, const std::string& folder, RunReport& report) {
  std::optional<Summary> complete = find_complete(run.study, run.options, run.configuration, folder);
  if (!complete) return false;
  report.outcome = RunReport::Outcome::found_complete;
  report.device = run.device_text();
  report.summary = std::move(*complete);
  return true;
}

/// Several threads have something to say.
StudyObserver one_at_a_time(const StudyObserver& observer) {
  const auto mutex = std::make_shared<std::mutex>();
  const auto guard = [mutex](const auto& call) {
    return [mutex, call](const auto& argument) {
      const std::lock_guard lock(*mutex);
      call(argument);
    };
  };
  return {.started = guard(observer.started),
          .progress = guard(observer.progress),
          .notice = guard(observer.notice),
          .bad_layer_advice = observer.bad_layer_advice};
}

}  // namespace

std::string interrupted_text(std::size_t finished, std::size_t total, std::string_view resume_advice) {
  return fmt::format("interrupted with {} of {} layers finished; {}", finished, total, resume_advice);
}

RunReport run_study(Study study, RunOptions options, const std::atomic<bool>& stop, const StudyObserver& watcher) {
  const StudyObserver observer = one_at_a_time(watcher);
  if (!options.chunk) check_output(study, options);
  const std::unique_ptr<PreparedStudy> run = prepare_study(std::move(study), std::move(options), stop, observer);
  if (run->options.chunk) return compute_chunk(*run, stop, observer);
  RunReport report;
  report.units = run->plan.units.size();
  const std::string folder = PartialResults::folder_of(run->options.output);
  if (take_complete(*run, folder, report)) return report;
  const bool resume = run->options.resume;
  if (run->options.force && !resume) {
    FolderMember::require_none(folder, stop, observer.notice);
    PartialResults::discard(folder);
  }
  PartialResults partial(folder, resume ? PartialResults::Start::resume : PartialResults::Start::fresh,
                         run->configuration, &run->study);
  // Another process may have finished the study, and removed its folder, before this one has made it again.
  if (take_complete(*run, folder, report)) return report;
  // After an error, a folder without finished units would only make the next run refuse to start.
  const auto discard_if_empty = [&] {
    if (!resume && report.progress.finished == 0 && !partial.has_seen_another())
      PartialResults::remove_own_files(folder);
  };
  try {
    StudyRun study_run(*run, partial, stop, observer, report);
    if (!run->options.take) {
      study_run.go();
      return report;
    }
    ChunkList chunks(*run->options.take);
    report.missing = missing_units(*run, partial);
    if (chunks.empty() && !report.missing.empty()) {  // only the question
      report.outcome = RunReport::Outcome::unfinished;
      return report;
    }
    study_run.gather(chunks);
    return report;
  } catch (const Interrupted&) {
    throw Interrupted(interrupted_text(report.progress.finished, run->plan.units.size(), run->options.resume_advice));
  } catch (const DeviceError& error) {
    discard_if_empty();
    if (report.progress.finished == 0) throw;
    throw DeviceError(fmt::format("{}; {} of {} layers are finished, {}", error.what(), report.progress.finished,
                                  run->plan.units.size(), run->options.resume_advice));
  } catch (...) {
    discard_if_empty();
    throw;
  }
}

}  // namespace attest
