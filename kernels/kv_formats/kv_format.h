// Formats of a KV cache: what attention reads of a key or a value once it is stored in one. Each format is
// quantise-dequantise of rows (one token of one KV head each), its bytes, and its words for lists.
//
// Values of the dump are float32 exactly. What decides a code is float32, each operation rounded by itself; decoded
// values, and rotations that are undone, are double. A decoded value is never NaN because a block is zero or tiny; it
// may be infinite where a float16 scale overflows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dumps/element_type.h"

namespace attest {

struct DeviceKvRows;  // kv_rows_cuda.h
struct KvShape;       // dumps/attention_layer.h

/// The rows of one layer's keys or values.
struct KvRows {
  bool keys = true;       ///< else values
  int channels = 0;       ///< C
  int shared_values = 0;  ///< of keys: Dv where the values are their first Dv channels (dump attribute values_in_keys)
  bool rotate = true;     ///< option rotate = auto
  ElementType element_type = ElementType::float32;  ///< of the dump
};

/// The rows of keys, or of values, of this shape.
KvRows kv_rows(const KvShape& kv, bool keys, bool rotate, ElementType element_type);

struct KvFormat {
  std::string_view name;
  std::string_view bytes_text;  ///< per token and KV head of C channels: "9C/16"
  std::string_view rule;        ///< one line
  std::string_view source;
  bool of_values = true;       ///< false: only keys can be stored in it
  float scale_divisor = 0;     ///< max abs / this is the scale `amax`; 0: it takes no scale
  bool scale_of_head = false;  ///< a KV head may have a scale of its own
  bool amax_by_default = false;
  bool of_llama_cpp = false;  ///< takes the option rotate; integer products with it read queries in q8_0

  double (*bytes)(const KvRows& rows) = nullptr;
  /// What the rows have and must have, "" if they fit: "72 channels, expected a multiple of 16".
  std::string (*fault)(const KvRows& rows) = nullptr;
  /// x [count, C] to out [count, C], whose rows are `stride` doubles apart. scale is 1 for a format that takes none.
  void (*apply)(const KvRows& rows, float scale, const float* x, std::int64_t count, double* out,
                std::int64_t stride) = nullptr;
  /// `apply` with codes that are cut towards zero instead of rounded, as some engines make them; null: none does.
  void (*apply_cut)(const KvRows& rows, float scale, const float* x, std::int64_t count, double* out,
                    std::int64_t stride) = nullptr;
  /// What `apply` gives, on the device (kv_rows_cuda.h), rounded to float32; null: no CUDA code.
  void (*cuda)(const KvRows& rows, const DeviceKvRows& on_device) = nullptr;
};

/// All formats. 16 bits as dumped, `native`, is none of them.
std::span<const KvFormat* const> kv_formats();
/// Null for an unknown name, and for `native`.
const KvFormat* find_kv_format(std::string_view name);

}  // namespace attest
