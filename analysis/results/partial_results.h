// The folder in which an unfinished study keeps its finished units of work: what makes --resume, kill -9 and several
// processes at one study safe. Described for users in results-format.md, "While a study runs".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "analysis/results/layer_results.h"
#include "analysis/study/study.h"
#include "dumps/base/file_descriptor.h"

namespace attest {

/// Holds a claim on a unit; gives it back when destroyed, as the kernel does when the process dies.
class UnitClaim {
 public:
  UnitClaim() = default;
  UnitClaim(int lock_file, std::int64_t offset) : lock_file_(lock_file), offset_(offset) {}
  UnitClaim(UnitClaim&& other) noexcept { *this = std::move(other); }
  UnitClaim& operator=(UnitClaim&& other) noexcept {
    std::swap(lock_file_, other.lock_file_);
    std::swap(offset_, other.offset_);
    return *this;
  }
  ~UnitClaim();

 private:
  int lock_file_ = -1;
  std::int64_t offset_ = 0;
};

/// One unit per file, each written under another name and renamed, with a checksum: a file that is there and checks is
/// whole. Its methods may be called from several threads; several processes may have the folder open.
class PartialResults {
 public:
  enum class Start { fresh, resume };

  static bool exists(const std::string& folder);
  /// Removes the folder and what attest wrote there. Throws OutputError if it holds anything else.
  static void discard(const std::string& folder);

  /// Makes the folder, or with Start::resume goes on in it. `study_json` is all that decides the results: a folder that
  /// was begun with another one is refused (UsageError naming the first difference). Throws OutputError when the folder
  /// exists (Start::fresh) or cannot be made.
  PartialResults(const std::string& folder, Start start, const std::string& study_json);

  /// When the study was begun, by whichever process did: ISO 8601, UTC.
  const std::string& begun() const { return begun_; }

  /// False once a process has finished the study and removed the folder.
  bool in_place() const { return exists(folder_); }

  /// The right to compute a unit or, with the finishing claim, to write the results file; empty while another process
  /// has it. Where the file system knows no locks, always given: units computed twice are the same. A claim must not
  /// outlive this object.
  std::optional<UnitClaim> claim(const UnitKey& unit);
  std::optional<UnitClaim> claim_finish();

  /// The unit as it was stored; empty when it is missing or damaged.
  std::optional<LayerResults> load(const UnitKey& unit) const;
  /// Throws OutputError when it cannot be written.
  void store(const UnitKey& unit, const LayerResults& results);

  /// Small notes beside the units (for instance input hashes), stored as units are; empty when missing.
  std::optional<std::string> load_note(const std::string& name) const;
  void store_note(const std::string& name, const std::string& text);

  /// The place for a results file under way, so that nothing is left over when it is discarded.
  const std::string& folder() const { return folder_; }

 private:
  void write_file(const std::string& name, const std::string& content) const;

  std::string folder_;
  std::string begun_;
  std::uint64_t study_hash_ = 0;
  FileDescriptor lock_file_;
};

}  // namespace attest
