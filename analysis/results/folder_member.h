// The processes that share the folder of an unfinished study: who they are, whether they live, what each has locked.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dumps/base/cleanup.h"
#include "dumps/base/file_descriptor.h"
#include "dumps/base/process_identity.h"

namespace attest {

/// What the file of a process says. Such files are untrusted: texts are cut to a sensible length.
struct FolderProcess {
  std::string token;  ///< random digits, also in the name of its file; "" in the place of what cannot be read
  ProcessIdentity identity;
  std::string heartbeat;  ///< a count, only compared with itself

  /// "process 12 on 'node2'".
  std::string name() const;
  /// With a new token.
  static FolderProcess this_process();
};

/// This process as one of those that share the folder. Its file process-TOKEN holds who it is and a count that a thread
/// raises each second, also while a file system keeps others of this object waiting for a file of another process. A
/// lock is a hard link to that file, which only one process can make; no locks of the file system are needed. A process
/// is dead if its file is gone, if it has ended on this machine, or if its count has stood still for `silence` by the
/// clock of this process. Its locks are then free. A process that was only slow may find that another one has taken its
/// lock: both compute the same unit, to the same bytes.
class FolderMember {
 public:
  using Notice = std::function<void(const std::string&)>;
  using Reader = std::function<std::optional<std::string>(const std::string& path)>;
  static constexpr std::chrono::milliseconds kSilence{10000};

  /// At most 4096 bytes of a regular file; empty if there is none.
  static std::optional<std::string> read_text(const std::string& path);

  /// `read`: how the files of other processes and the locks are read. Throws OutputError if its file cannot be written.
  explicit FolderMember(const std::string& folder, std::chrono::milliseconds silence = kSilence,
                        Reader read = read_text);
  /// Gives all locks back. Opens no file: it works also when no further file can be opened.
  ~FolderMember();
  FolderMember(const FolderMember&) = delete;
  FolderMember& operator=(const FolderMember&) = delete;

  /// Whether the file of this process is in the folder, which another process may have removed.
  bool is_listed() const;
  /// Writes that file again.
  void list_again();

  /// False while another process that lives has the lock. Throws OutputError if the folder cannot be written.
  bool try_lock(const std::string& name);
  void unlock(const std::string& name) noexcept;
  const FolderProcess& self() const { return self_; }
  /// The process that has the lock.
  std::optional<FolderProcess> holder(const std::string& name) const;

  /// Whether another living process has been seen in the folder; it is looked for during the first minute.
  bool has_seen_another() const { return seen_another_; }

  /// Throws OutputError if a process lives in the folder. It takes kSilence to see that one on another machine does
  /// not, of which `notice` is told. Throws Interrupted if `stop` is set.
  static void require_none(const std::string& folder, const std::atomic<bool>& stop, const Notice& notice,
                           std::chrono::milliseconds silence = kSilence);

  /// Whether the file exists, or whether that cannot be known. A network file system is asked anew, which it may not be
  /// for the attributes of a file.
  static bool may_exist(const std::string& path);
  /// Whether a file of this name is a process or a lock.
  static bool is_file_name(std::string_view name);

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    std::string heartbeat;
    Clock::time_point since, looked;
    bool dead = false;
  };

  std::string lock_path(const std::string& name) const;
  bool make_lock(const std::string& path);
  bool hold(const std::string& name);
  bool is_dead(const std::string& path, const std::optional<FolderProcess>& process);
  void write_heartbeat();
  void look_for_another(const std::stop_token& stop);

  const std::string folder_;
  const std::chrono::milliseconds silence_;
  const Reader read_;
  const FolderProcess self_;
  const std::string path_;
  std::optional<Cleanup> cleanup_;
  std::atomic<bool> seen_another_ = false;
  std::mutex mutex_;  ///< of the members below; the heartbeat needs it, so that no file is read under it
  FileDescriptor file_;
  std::uint64_t heartbeats_ = 0;
  Clock::time_point last_heartbeat_;
  std::set<std::string> held_;
  std::map<std::string, Watched> watched_;  ///< by token, or by the path of a lock that cannot be read
  std::jthread beating_, looking_;          ///< last members: the threads use all the others
};

}  // namespace attest
