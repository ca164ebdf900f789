// Reads the header of the safetensors file, and of its tensors only the scales.
#include "kernels/kv_formats/scales_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/json_place.h"
#include "dumps/base/printable.h"
#include "dumps/base/text_parts.h"
#include "dumps/element_type.h"
#include "kernels/base/layer_name.h"

namespace attest {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;  // 100,000 tensors
constexpr std::int64_t kMaxScales = 1 << 16;                        // of one layer: as many KV heads

/// "k_scale" or "attn_k_scale", but not "qk_scale" or "kv_scale".
bool is_scale(std::string_view name, std::string_view scale) {
  return name.ends_with(scale) && (name.size() == scale.size() || name[name.size() - scale.size() - 1] == '.' ||
                                   name[name.size() - scale.size() - 1] == '_');
}

struct Header {
  Json tensors;
  std::uint64_t end;  ///< where in the file the tensors begin
};

Header read_header(const InputFile& file) {
  std::array<std::byte, 8> length;
  if (file.size() < length.size())
    throw InputError(fmt::format("{}: has {} bytes, expected a safetensors file", file.path(), file.size()));
  file.read(0, length);
  const auto bytes = little_endian<std::uint64_t>(length.data());
  if (bytes > file.size() - length.size() || bytes > kMaxHeaderBytes)
    throw InputError(fmt::format("{}: its header is said to have {} bytes, expected a safetensors file with at most {}",
                                 file.path(), bytes, std::min(kMaxHeaderBytes, file.size() - length.size())));
  std::string text(bytes, '\0');
  file.read(length.size(), std::as_writable_bytes(std::span(text)));
  try {
    Json header = parse_json(text);
    if (header.is_object()) return {std::move(header), length.size() + bytes};
  } catch (const JsonError&) {
  }
  throw InputError(fmt::format("{}: its header is no JSON object, expected a safetensors file", file.path()));
}

/// The numbers of one tensor. `data`: where in the file the tensors begin.
std::vector<float> numbers_of(const InputFile& file, std::uint64_t data, const JsonPlace& tensor) {
  const std::string& type = tensor["dtype"].one_of({"F32", "BF16", "F16"});
  const ElementType element = type == "F32"    ? ElementType::float32
                              : type == "BF16" ? ElementType::bfloat16
                                               : ElementType::float16;
  std::int64_t count = 1;
  for (const JsonPlace& size : tensor["shape"].elements()) {
    count *= size.whole(1, kMaxScales);
    if (count > kMaxScales) tensor["shape"].refuse("one number, or one per KV head");
  }
  const auto bytes = static_cast<std::size_t>(count) * size_of(element);
  const std::vector<JsonPlace> offsets = tensor["data_offsets"].elements();
  const std::uint64_t all = file.size() - data;
  if (offsets.size() != 2 || offsets[1].unsigned_whole() > all ||
      offsets[0].unsigned_whole() > offsets[1].unsigned_whole() ||
      offsets[1].unsigned_whole() - offsets[0].unsigned_whole() != bytes)
    tensor["data_offsets"].refuse(fmt::format("two offsets, {} bytes apart and within the {} of the file", bytes, all));
  std::vector<std::byte> raw(bytes);
  file.read(data + offsets[0].unsigned_whole(), raw);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  convert_to_float(element, raw.data(), numbers.size(), numbers.data());
  for (const float number : numbers)
    if (!(number > 0 && std::isfinite(number)))
      throw InputError(fmt::format("{} is {}, expected a finite number above 0", tensor.name(), number));
  return numbers;
}

}  // namespace

ScalesFile::ScalesFile(const std::string& from) : path(from) {
  const InputFile file(path);
  const auto [header, data] = read_header(file);
  JsonPlace(header, path).for_members([&](const std::string& name, const JsonPlace& tensor) {
    const std::optional<int> layer = layer_in_name(name);
    if (!layer) return;
    for (const auto& [scale, of_layers] : {std::pair("k_scale", &keys), std::pair("v_scale", &values)})
      if (is_scale(name, scale) && !of_layers->emplace(*layer, numbers_of(file, data, tensor)).second)
        throw InputError(fmt::format("{} is a second {} of layer {}, expected one", tensor.name(), scale, *layer));
  });
}

}  // namespace attest
