// The folder in which an unfinished study keeps its finished units of work. It makes --resume, kill -9 and several
// processes on one study safe. User documentation: analysis/results/README.md, "While a study runs".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "analysis/results/folder_member.h"
#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"

namespace attest {

enum class UnitState : std::uint8_t { missing, left_out, computed };

inline constexpr std::string_view kStudyFile = "study.json";  ///< describes the study of a folder

/// One file per unit, with a checksum, written under a temporary name and renamed: a file with the right checksum is
/// complete. Methods may be called from several threads. Several processes may have the folder open.
class PartialResults {
 public:
  enum class Start : std::uint8_t { fresh, resume };
  /// What to do with a study that cannot be resumed, for messages.
  static constexpr const char* kStartOver = "start over with --force instead of --resume";

  /// The folder of a study with this results file: its name with ".partial". Of a name that would get too long, the end
  /// becomes a hash of the name.
  static std::string folder_of(const std::string& output);
  static bool exists(const std::string& folder);
  /// Removes the folder and what attest wrote there. Throws OutputError if it holds anything else.
  static void discard(const std::string& folder);
  /// The same, but leaves what else the folder holds, and the folder with it.
  static void remove_own_files(const std::string& folder);
  /// The name of something in the folder that attest did not write; "" if there is nothing.
  static std::string foreign_entry(const std::string& folder);

  /// Makes the folder; Start::resume also joins an existing one. `study_json` holds everything that determines the
  /// results. Throws UsageError, naming the first difference, if the folder was begun with another `study_json`, or
  /// InputError if that is the content of an input; OutputError if it holds a study already (Start::fresh) or cannot be
  /// made; InputError if it is a link or if its own files are not files. What the folder holds is untrusted: units are
  /// compared with `study`, which must outlive this object; without it only with their dump and layer.
  PartialResults(const std::string& folder, Start start, const std::string& study_json, const Study* study = nullptr);
  PartialResults(const PartialResults&) = delete;
  PartialResults& operator=(const PartialResults&) = delete;
  /// Also removes the folder of a finished study where a network file system kept it.
  ~PartialResults();

  /// Time at which the first process began the study: ISO 8601, UTC.
  const std::string& start_time() const { return start_time_; }

  /// False once a process has finished the study and removed the folder.
  bool in_place();

  /// The right to compute a unit, or to write the results file. False while another process has it. The destructor
  /// gives back what this process holds.
  bool try_lock(const UnitKey& unit) { return member_->try_lock(lock_of(unit)); }
  void unlock(const UnitKey& unit) noexcept { member_->unlock(lock_of(unit)); }
  bool try_lock_results() { return member_->try_lock(kResultsLock); }
  /// The right to compute on a device that processes have in common.
  bool try_lock_device(const std::string& device) { return member_->try_lock(device); }
  void unlock_device(const std::string& device) noexcept { member_->unlock(device); }
  /// In words, who has it; empty if nobody does.
  std::string holder(const UnitKey& unit) const { return name_of(member_->holder(lock_of(unit))); }
  std::string holder_of_device(const std::string& device) const { return name_of(member_->holder(device)); }
  std::string holder_of_results() const { return name_of(member_->holder(kResultsLock)); }
  /// This process in words.
  std::string self() const { return member_->self().name(); }
  bool has_seen_another() const { return member_->has_seen_another(); }

  /// All units that have a file in the folder, damaged ones too.
  static std::set<UnitKey> unit_files(const std::string& folder);
  bool has_file(const UnitKey& unit) const;
  /// UnitState::missing also if load() is empty.
  UnitState state(const UnitKey& unit) const;
  /// The stored unit; empty if it is missing or damaged, or does not belong to this unit of the study.
  std::optional<LayerResults> load(const UnitKey& unit) const;
  /// Throws OutputError if the unit cannot be written.
  void store(const UnitKey& unit, const LayerResults& results) const;
  /// A unit as the bytes of its file, and what they hold: empty as of load().
  std::string encode(const LayerResults& results) const;
  void store_bytes(const UnitKey& unit, std::string_view bytes) const;
  std::optional<LayerResults> decode(const UnitKey& unit, std::string_view bytes) const;

  /// Small notes beside the units, for instance input hashes. load_note() is empty if the note is missing. store_note()
  /// replaces none: false if there was one.
  std::optional<std::string> load_note(const std::string& name) const;
  bool store_note(const std::string& name, const std::string& text) const;

  /// The folder. The results file is written here before it is renamed, so that discard() removes an unfinished one.
  const std::string& folder() const { return folder_; }

 private:
  static constexpr const char* kResultsLock = "results";
  static std::string lock_of(const UnitKey& unit);
  static std::string name_of(const std::optional<FolderProcess>& process) { return process ? process->name() : ""; }
  bool begin_or_join(Start start, const std::string& study_json);
  std::string path_of(std::string_view name) const;
  /// Empty unless they belong to this unit of the study.
  std::optional<LayerResults> checked(const UnitKey& unit, std::optional<LayerResults> results) const;

  const Study* study_;
  std::string folder_;
  std::string start_time_;
  std::string study_text_;        ///< of the file that describes the study
  std::uint64_t study_hash_ = 0;  ///< study_identity()
  std::unique_ptr<FolderMember> member_;
};

}  // namespace attest
