// Writes attention dumps (format: ../README.md) as a stream: memory does not grow with the size of the dump.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dumps/dump_info.h"
#include "dumps/element_type.h"

namespace attest {

struct DumpWriterOptions {
  bool overwrite = false;  ///< replace an existing file
  int gzip_level = 0;      ///< 0: contiguous, the fast default; 1..9: chunked, shuffled, deflated
};

/// Order of calls: for each sample begin_sample, for each of its layers begin_layer and all of q, k and v; then finish.
/// The file appears under its name only in finish(). Without finish() the destructor removes what was written.
/// Throws OutputError when the file cannot be written, UsageError when header, sample or layer break the format's
/// rules, std::logic_error when calls are out of order or a tensor was left incomplete.
class DumpWriter {
 public:
  /// Ignores `path`, `file_bytes`, `stored_bytes` and `samples` of `header`. softmax_scale 0 writes none (readers then
  /// use 1/sqrt(D)).
  DumpWriter(const std::string& path, const DumpInfo& header, const DumpWriterOptions& options = {});
  ~DumpWriter();
  DumpWriter(const DumpWriter&) = delete;
  DumpWriter& operator=(const DumpWriter&) = delete;

  /// Ignores `arrays` and `layers` of `sample`.
  void begin_sample(const SampleInfo& sample);

  void begin_layer(int layer, const LayerAttention& attention);

  /// Queries first .. first+count-1 as [count, Hq, D] of the layer's element type.
  void write_q(std::int64_t first, std::int64_t count, const std::byte* values);

  /// Tokens first .. first+count-1 of one KV head as [count, D] (k) or [count, Dv] (v), in any order of slabs, each
  /// token once: only their number is checked.
  void write_k(int kv_head, std::int64_t first, std::int64_t count, const std::byte* values);
  void write_v(int kv_head, std::int64_t first, std::int64_t count, const std::byte* values);

  /// Writes an optional array that readers read on demand (dump_fields.h): of the layer that was begun, else of the
  /// sample. T is std::int32_t or float, as the format says for `name`. Values are rounded to `type`: for an array of
  /// any element type, and float16 for output_gradient, which alone has `scales`.
  template <class T>
  void write_array(std::string_view name, std::span<const T> values, ElementType type = ElementType::float32,
                   std::span<const double> scales = {});

  /// Completes the file and gives it its name.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attest
