// Rank 0 leads: it has the folder, the assembly and the results file. The others follow: they compute what they claim.
#include "analysis/run/ranked_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "analysis/ranks/rank_session.h"
#include "analysis/ranks/work_queue.h"
#include "analysis/results/partial_results.h"
#include "analysis/run/folder_session.h"
#include "analysis/run/input_guard.h"
#include "analysis/run/late_notice.h"
#include "analysis/run/prepared_study.h"
#include "analysis/run/rank_collector.h"
#include "analysis/run/rank_description.h"
#include "analysis/run/rank_unit_queue.h"
#include "analysis/run/results_assembly.h"
#include "analysis/run/study_output.h"
#include "analysis/run/write_results.h"
#include "analysis/study/calibration.h"
#include "analysis/study/short_contexts.h"
#include "analysis/torch/torch_store.h"
#include "dumps/base/error.h"
#include "dumps/base/parallel_for.h"
#include "dumps/base/process_identity.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

/// Nodes of a job may begin minutes apart.
constexpr milliseconds kJoinWait{300000};
constexpr int kLeasesOfStore = 3;  // the store may be silent for so many
/// A network file system may show a new folder late.
constexpr milliseconds kFolderWait{3000};
constexpr milliseconds kFolderPoll{50};
constexpr int kMostLoaders = 8;

std::string seconds_text(milliseconds time) { return fmt::format("{} s", time.count() / 1000); }

/// Whether this rank starts the store.
bool serves(const RankEnvironment& ranks) { return ranks.rank == 0 && !ranks.store_is_there; }

std::string sent_below(const RankSession& session, bool send_results) {
  return send_results ? session.prefix() + "results/" : "";
}

WorkQueue::Options work_options(const RankSession& session, const RankOptions& ranks, std::size_t units) {
  WorkQueue::Options options{.prefix = session.prefix(),
                             .rank = ranks.environment.rank,
                             .process = session.process(),
                             .units = units,
                             .lease = ranks.lease};
  if (session.is_first())
    options.is_silent = [&session](const std::string& process) { return session.is_silent(process); };
  return options;
}

/// Computes units until none are left for this rank.
void compute_share(const PreparedStudy& run, UnitQueue& queue, RankSession& session, const UnitSink& sink,
                   const StudyObserver& observer) {
  for (const std::unique_ptr<LayerStudy>& device : run.layer_studies) device->end_when(&session.stop());
  run.compute(queue, sink, session.stop(), observer);
}

/// Waits for the folder of rank 0. Rank 0 removes it when all is done.
void require_folder(const std::string& folder, const std::string& token, const RankOptions& ranks,
                    const RankSession& session) {
  for (milliseconds waited{0}; !FolderSession::sees(folder, token) && !session.is_complete(); waited += kFolderPoll) {
    if (waited >= kFolderWait)
      throw OutputError(
          fmt::format("rank {} on '{}' cannot see '{}' as rank 0 does: expected a folder that all ranks share; "
                      "--send-results sends finished layers to rank 0 instead",
                      ranks.environment.rank, host_name(), folder));
    if (session.stop()) throw Interrupted("interrupted");
    std::this_thread::sleep_for(kFolderPoll);
  }
}

std::optional<std::string> join(RankSession& session, const StudyObserver& observer) {
  const LateNotice notice(observer.notice, fmt::format("waiting for rank 0, {} at most", seconds_text(kJoinWait)));
  return session.join(kJoinWait);
}

std::unique_ptr<JobStore> open_store(const RankOptions& ranks, const std::atomic<bool>& stop,
                                     const StudyObserver& observer) {
  const RankEnvironment& environment = ranks.environment;
  const LateNotice notice(observer.notice,
                          fmt::format("waiting for the store of the ranks at {}:{}, {} at most", environment.store_host,
                                      environment.store_port, seconds_text(kJoinWait)));
  return open_torch_store(
      {.host = environment.store_host, .port = environment.store_port, .serve = serves(environment)}, kJoinWait,
      kLeasesOfStore * ranks.lease, stop);
}

RunReport follow(Study study, RunOptions options, RankSession& session, const std::atomic<bool>& stop,
                 const StudyObserver& observer) {
  StudyObserver own = observer;  // what all ranks would say, rank 0 says
  own.notice = [](const std::string&) {};
  own.progress = [](const StudyProgress&) {};
  const std::unique_ptr<PreparedStudy> run = prepare_study(std::move(study), std::move(options), false, stop, own);
  RunReport report{
      .outcome = RunReport::Outcome::led_by_rank_0, .progress = {}, .device = run->device_text(), .summary = {}};
  const RankOptions& ranks = *run->options.ranks;
  const std::optional<std::string> text = join(session, observer);
  if (!text) return report;
  const RankDescription work =
      read_description(*text, run->plan, run->configuration, run->study.skip_bad_layers, ranks.environment.rank);
  const std::string folder = PartialResults::folder_of(run->options.output);
  if (!work.send_results && !work.units.empty()) require_folder(folder, work.token, ranks, session);
  PartialResults partial(folder, PartialResults::Start::join, run->configuration, &run->study);
  calibrate(run->study, run->plan, run->readers[0], &session.stop());
  own.notice = observer.notice;
  JobStore& store = session.store();
  WorkQueue numbers(store, work_options(session, ranks, work.units.size()));
  RankUnitQueue queue(numbers, store, partial, work.units, sent_below(session, work.send_results), session.stop());
  compute_share(*run, queue, session, {}, own);
  return report;
}

/// What rank 0 has of a study while it runs.
class Leader {
 public:
  Leader(const PreparedStudy& run, RankSession& session, const std::atomic<bool>& stop, const StudyObserver& observer,
         RunReport& report)
      : run_(run), ranks_(*run.options.ranks), session_(session), stop_(stop), observer_(observer), report_(report) {}

  void lead(PartialResults& partial) {
    FolderSession folder(partial, ranks_.lease, stop_, observer_.notice);
    // Processes without ranks, which use locks, stay out.
    const std::optional<UnitClaim> finish = partial.claim_finish();
    if (!finish) throw OutputError(fmt::format("'{}' is in use: another process works on the study", partial.folder()));
    calibrate(run_.study, run_.plan, run_.readers[0], &stop_);
    InputGuard inputs(run_.inputs, partial, *run_.hashes, stop_);
    for (const std::string& notice : short_context_notices(run_.study)) observer_.notice(notice);
    ResultsAssembly assembly(run_.study, run_.plan, run_.options.with_dense_layers);
    assembly.write_to(run_.options.output, partial.folder());
    const RankDescription work{.configuration = run_.configuration,
                               .skip_bad_layers = run_.study.skip_bad_layers,
                               .send_results = ranks_.send_results,
                               .token = folder.token(),
                               .units = take_over_stored(partial, assembly)};
    session_.open(work.text(run_.plan));
    compute(work, folder, partial, assembly, inputs);
    session_.complete();
    report_.summary = assembly.summary();
    write_results(run_, report_, partial, assembly, inputs, observer_, [&] { folder.end(); });
  }

 private:
  /// Adds the units of earlier runs; several threads load them. Returns the others.
  std::vector<UnitKey> take_over_stored(const PartialResults& partial, ResultsAssembly& assembly) {
    const std::set<UnitKey> files = PartialResults::unit_files(partial.folder());
    std::vector<std::uint8_t> added(run_.plan.units.size(), 0);
    parallel_for(run_.options.threads, run_.plan.units.size(), [&](int, std::size_t i) {
      const UnitKey& unit = run_.plan.units[i];
      if (stop_) throw Interrupted("interrupted");
      if (!files.contains(unit)) return;
      const std::optional<LayerResults> found = partial.load(unit);
      if (!found || (!found->done && !run_.study.skip_bad_layers)) return;
      assembly.add(unit, *found);
      added[i] = 1;
    });
    std::vector<UnitKey> missing;
    for (std::size_t i = 0; i < added.size(); ++i)
      if (added[i] == 0) missing.push_back(run_.plan.units[i]);
    const std::size_t resumed = added.size() - missing.size();
    report_.progress = {.finished = resumed, .resumed = resumed, .total = added.size()};
    return missing;
  }

  void compute(const RankDescription& work, const FolderSession& folder, PartialResults& partial,
               ResultsAssembly& assembly, InputGuard& inputs) {
    JobStore& store = session_.store();
    WorkQueue numbers(store, work_options(session_, ranks_, work.units.size()));
    const auto add = [&](const UnitKey& unit, const LayerResults& found, UnitOrigin origin) {
      assembly.add(unit, found);
      run_.take_hashes(unit, found, origin);
    };
    RankCollector collector({.store = store,
                             .work = numbers,
                             .session = session_,
                             .folder = folder,
                             .partial = partial,
                             .units = work.units,
                             .bytes_of = [&](const UnitKey& unit) { return bytes_of(unit); },
                             .sent_below = sent_below(session_, work.send_results),
                             .sink = add,
                             .progress =
                                 [&](const StudyProgress& progress) {
                                   report_.progress = progress;
                                   observer_.progress(progress);
                                   inputs.poll();
                                 },
                             .resumed = report_.progress.resumed,
                             .total = report_.progress.total,
                             .threads = std::clamp(run_.options.threads / 2, 1, kMostLoaders)});
    StudyObserver own = observer_;  // the collector tells the progress of all ranks
    own.progress = [](const StudyProgress&) {};
    RankUnitQueue queue(numbers, store, partial, work.units, "", session_.stop());
    try {
      compute_share(
          run_, queue, session_,
          [&](const UnitKey& unit, const LayerResults& found, UnitOrigin origin) {
            add(unit, found, origin);
            collector.add_own(unit);
          },
          own);
      collector.wait();
    } catch (const Interrupted&) {
      collector.rethrow();
      throw;
    }
  }

  std::uint64_t bytes_of(const UnitKey& unit) const {
    return static_cast<std::uint64_t>(
        run_.readers[unit.dump].layer_info(run_.plan.places[unit.dump][unit.sample].index, unit.layer).bytes());
  }

  const PreparedStudy& run_;
  const RankOptions& ranks_;
  RankSession& session_;
  const std::atomic<bool>& stop_;
  const StudyObserver& observer_;
  RunReport& report_;
};

RunReport lead(Study study, RunOptions options, RankSession& session, const std::atomic<bool>& stop,
               const StudyObserver& observer) {
  check_output(study, options);
  const std::unique_ptr<PreparedStudy> run = prepare_study(std::move(study), std::move(options), true, stop, observer);
  const RankEnvironment& ranks = run->options.ranks->environment;
  RunReport report{.outcome = RunReport::Outcome::computed,
                   .progress = {},
                   .device = fmt::format("{} ranks, rank 0: {}", ranks.world, run->device_text()),
                   .summary = {}};
  const std::string folder = PartialResults::folder_of(run->options.output);
  if (std::optional<Summary> complete = find_complete(run->study, run->options, run->configuration, folder)) {
    report.outcome = RunReport::Outcome::found_complete;
    report.summary = std::move(*complete);
    session.open(RankDescription{
        .configuration = run->configuration,
        .skip_bad_layers = run->study.skip_bad_layers,
        .send_results = false,
        .token = "",
        .units = {}}.text(run->plan));
    session.complete();
    return report;
  }
  const bool resume = run->options.resume;
  if (run->options.force && !resume) {
    FolderSession::require_none(folder, stop, observer.notice);
    PartialResults::discard(folder);
  }
  PartialResults partial(folder, resume ? PartialResults::Start::resume : PartialResults::Start::fresh,
                         run->configuration, &run->study, PartialResults::Sharing::by_store);
  try {
    Leader(*run, session, stop, observer, report).lead(partial);
    return report;
  } catch (const Interrupted&) {
    session.throw_reason_unless_interrupted();
    throw Interrupted(fmt::format("interrupted with {} of {} layers finished; the same command with --resume goes on",
                                  report.progress.finished, run->plan.units.size()));
  } catch (const Error&) {
    if (!resume && report.progress.finished == 0) PartialResults::remove_own_files(folder);
    throw;
  }
}

}  // namespace

RunReport run_ranked_study(Study study, RunOptions options, const std::atomic<bool>& stop,
                           const StudyObserver& observer) {
  const RankOptions ranks = *options.ranks;
  const RankEnvironment& environment = ranks.environment;
  const bool first = environment.rank == 0, serve = serves(environment);
  const std::unique_ptr<JobStore> store = open_store(ranks, stop, observer);
  RankSession session(*store, environment, ranks.lease, stop);
  // Rank 0 goes last if it has the store: the others would take its end for a failure.
  const auto fail = [&] {
    session.fail();
    if (serve) session.wait_until_heard();
  };
  try {
    const RunReport report = first ? lead(std::move(study), std::move(options), session, stop, observer)
                                   : follow(std::move(study), std::move(options), session, stop, observer);
    if (serve) session.wait_for_others(observer.notice);
    return report;
  } catch (const StoreLost&) {
    if (stop) throw Interrupted("interrupted");  // who was told to end, too, may have been faster
    throw;
  } catch (const Interrupted&) {
    if (!stop) session.throw_own_error();  // the others may go on
    fail();
    if (!stop) session.throw_reason_unless_interrupted();
    throw;
  } catch (...) {
    fail();
    throw;
  }
}

}  // namespace attest
