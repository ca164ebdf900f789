// Reads attention dumps (format: ../README.md). Files are untrusted: opening checks all metadata, memory use is bounded
// by the size of the file, and every defect becomes an InputError of one sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/attention_layer.h"
#include "dumps/base/workers.h"
#include "dumps/dump_info.h"
#include "dumps/kv_source.h"
#include "dumps/layer_store.h"

namespace attest {

/// Bytes of a file that are a whole block: kFileBlock bytes at a multiple of kFileBlock.
using BlockObserver = std::function<void(std::uint64_t block, std::span<const std::byte> bytes)>;
/// The blocks of a file in which keys and values of a layer lie that are contiguous there.
struct LayerBlocks {
  std::vector<TensorBlock> whole;  ///< in one tensor
  std::vector<std::uint64_t> cut;  ///< numbers of those at the ends of a tensor
};

/// Whether values are checked while they are read.
enum class ValueCheck : bool { no, yes };

/// Thread-safe: threads may read different layers of one reader at the same time.
class DumpReader {
 public:
  /// Checks the metadata of every sample and layer, without reading q, k or v. Throws InputError. `allowed_memory` is
  /// for check_memory(); 0: what memory_bound.h allows freely. `meanwhile`, if any, is called once the process that
  /// reads them has been forked, which takes 10 ms for 32 layers.
  explicit DumpReader(const std::string& path, std::uint64_t allowed_memory = 0,
                      const std::function<void()>& meanwhile = {});
  ~DumpReader();
  DumpReader(DumpReader&&) noexcept;
  DumpReader& operator=(DumpReader&&) noexcept;

  const DumpInfo& info() const;

  /// `sample` indexes info().samples, `layer` is a number in its `layers`; otherwise std::out_of_range.
  const LayerInfo& layer_info(std::size_t sample, int layer) const;

  /// Throws InputError if a layer, with `more` bytes for what is made of it, takes more memory than was allowed: a
  /// small compressed file may hold a large layer.
  void check_memory(std::size_t sample, int layer, std::uint64_t more = 0) const;

  /// Fills `out` for all queries, and reuses its buffers if they are large enough. Its `estimates` and
  /// `output_gradient` become empty: others fill them. Returns whether all values are finite. They are checked while
  /// they are in the cache. Meanwhile several threads at once call `observe` with the blocks of the file that are read
  /// as they are. Blocks at the ends of a tensor and compressed ones are not among these. Throws InputError when the
  /// values cannot be read.
  [[nodiscard]] bool read_layer(std::size_t sample, int layer, AttentionLayer& out, const Workers& threads = 4,
                                const BlockObserver& observe = {}) const;

  /// The first of two steps for a layer whose keys and values go to `out.store`, not to its buffers: as read_layer(),
  /// without keys and values.
  [[nodiscard]] bool read_queries(std::size_t sample, int layer, AttentionLayer& out, const Workers& threads = 4,
                                  const BlockObserver& observe = {}) const;
  /// The second step puts keys and values into the store, piece by piece. The store has reserved the room, and its
  /// `arrival` has begun. Returns whether they are finite, as far as they are checked.
  [[nodiscard]] bool read_keys_and_values(std::size_t sample, int layer, LayerStore& store, const Workers& threads = 4,
                                          const BlockObserver& observe = {}, ValueCheck check = ValueCheck::yes) const;
  /// read_keys_and_values() observes the whole ones.
  LayerBlocks layer_blocks(std::size_t sample, int layer) const;

  /// Whether keys and values can be read by KV heads: they are contiguous in the file.
  bool reads_heads(std::size_t sample, int layer) const;
  /// Passes keys and values of the KV heads [first, first + count) to `put`. The caller has read the layer before and
  /// knows that it is finite: where a value is not, the file has changed, which is an InputError. Throws
  /// std::logic_error unless reads_heads().
  void read_heads(std::size_t sample, int layer, int first, int count, const KvSource::Put& put,
                  const Workers& threads) const;

  /// An array of a sample or layer that is read on demand (dump_fields.h), row-major; empty when the dump has none.
  /// T is std::int32_t or float, as the format says for `name`, otherwise std::logic_error; narrower elements become
  /// float exactly. Throws InputError when the values cannot be read or take more memory than was allowed.
  template <class T>
  std::vector<T> read_array(std::size_t sample, std::string_view name) const;
  template <class T>
  std::vector<T> read_array(std::size_t sample, int layer, std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest
