// The folder in which an unfinished study keeps its finished units of work. It makes --resume, kill -9 and several
// processes on one study safe. User documentation: analysis/results/README.md, "While a study runs".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "analysis/results/layer_results.h"
#include "analysis/results/partial_owner.h"
#include "analysis/results/unit_claim.h"
#include "analysis/study/study.h"
#include "dumps/base/file_descriptor.h"

namespace attest {

enum class UnitState : std::uint8_t { missing, left_out, computed };

/// One file per unit, with a checksum, written under a temporary name and renamed: a file with the right checksum is
/// complete. Methods may be called from several threads. Several processes may have the folder open.
class PartialResults {
 public:
  /// join: the folder belongs to another process, which has checked it; only units are written there.
  enum class Start { fresh, resume, join };
  /// by_store: of ranks, which need no locks (analysis/ranks).
  enum class Sharing { by_locks, by_store };
  /// What to do with a study that cannot be resumed, for messages.
  static constexpr const char* kStartOver = "start over with --force instead of --resume";

  /// The folder of a study with this results file: its name with ".partial". Of a name that would get too long, the end
  /// becomes a hash of the name.
  static std::string folder_of(const std::string& output);
  static bool exists(const std::string& folder);
  /// Removes the folder and what attest wrote there. Throws OutputError if it holds anything else, or if there are no
  /// locks and another process may be at work there.
  static void discard(const std::string& folder);
  /// The same, but leaves what else the folder holds, and the folder with it.
  static void remove_own_files(const std::string& folder);
  /// The name of something in the folder that attest did not write; "" if there is nothing.
  static std::string foreign_entry(const std::string& folder);

  /// Makes the folder; Start::resume also accepts an existing one. `study_json` holds everything that determines the
  /// results. Throws UsageError, naming the first difference, if the folder was begun with another `study_json`;
  /// OutputError if it holds a study already (Start::fresh), cannot be made, or if there are no locks and another
  /// process may be at work there; InputError if it is a link or if its own files are not files. What the folder holds
  /// is untrusted: units are compared with `study`, which must outlive this object; without it only with their dump and
  /// layer.
  PartialResults(const std::string& folder, Start start, const std::string& study_json, const Study* study = nullptr,
                 Sharing sharing = Sharing::by_locks);

  /// Time at which the first process began the study: ISO 8601, UTC.
  const std::string& start_time() const { return start_time_; }

  /// False once a process has finished the study and removed the folder.
  bool in_place() const { return exists(folder_); }

  /// False if the file system has no locks: this process then owns the folder until this object is destroyed.
  bool is_shared() const { return !owner_; }

  /// Claims the right to compute a unit or, with claim_finish(), to write the results file. Empty while another process
  /// holds the claim. A claim must not outlive this object.
  std::optional<UnitClaim> claim(const UnitKey& unit);
  std::optional<UnitClaim> claim_finish();

  /// All units that have a file in the folder, damaged ones too.
  static std::set<UnitKey> unit_files(const std::string& folder);
  /// UnitState::missing also if load() is empty.
  UnitState state(const UnitKey& unit) const;
  /// The stored unit; empty if it is missing or damaged, or does not belong to this unit of the study.
  std::optional<LayerResults> load(const UnitKey& unit) const;
  /// A unit that is known to be stored. Throws OutputError if it has become unreadable.
  LayerResults load_finished(const UnitKey& unit) const;
  /// Throws OutputError if the unit cannot be written.
  void store(const UnitKey& unit, const LayerResults& results);

  /// A unit as text, for those who have no folder in common; decode() is empty if it does not belong to this unit.
  std::string encode(const LayerResults& results) const;
  std::optional<LayerResults> decode(const UnitKey& unit, std::string_view bytes) const;

  /// Small notes beside the units, for instance input hashes. load_note() is empty if the note is missing.
  std::optional<std::string> load_note(const std::string& name) const;
  void store_note(const std::string& name, const std::string& text);
  void remove_note(const std::string& name);

  /// The folder. The results file is written here before it is renamed, so that discard() removes an unfinished one.
  const std::string& folder() const { return folder_; }

 private:
  void write_file(const std::string& name, const std::string& content) const;

  const Study* study_;
  std::string folder_;
  std::string start_time_;
  std::uint64_t study_hash_ = 0;
  FileDescriptor lock_file_;
  std::optional<PartialOwner> owner_;  ///< where there are no locks
};

}  // namespace attest
