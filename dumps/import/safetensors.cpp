// The header's checks.
#include "dumps/import/safetensors.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"

namespace attest {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the reference implementation's limit

struct TypeOfName {
  std::uint64_t bytes = 0;
  std::optional<ElementType> element_type;
};

const std::map<std::string, TypeOfName, std::less<>> kTypes{{"F32", {4, ElementType::float32}},
                                                            {"F16", {2, ElementType::float16}},
                                                            {"BF16", {2, ElementType::bfloat16}},
                                                            {"BOOL", {1, {}}},
                                                            {"U8", {1, {}}},
                                                            {"I8", {1, {}}},
                                                            {"U16", {2, {}}},
                                                            {"I16", {2, {}}},
                                                            {"U32", {4, {}}},
                                                            {"I32", {4, {}}},
                                                            {"U64", {8, {}}},
                                                            {"I64", {8, {}}},
                                                            {"F64", {8, {}}}};

class SafetensorsFile final : public TensorSource {
 public:
  explicit SafetensorsFile(const std::string& path) : file_(path) {
    std::byte length_bytes[8];
    if (file_.size() < 8) fail(fmt::format("expected a safetensors header, found a file of {} bytes", file_.size()));
    file_.read(0, length_bytes);
    const auto length = little_endian<std::uint64_t>(length_bytes);
    if (length > kLongestHeader || length > file_.size() - 8)
      fail(fmt::format("safetensors header: expected at most {} bytes, found a length of {}",
                       std::min(kLongestHeader, file_.size() - 8), length));
    std::string text(length, '\0');
    file_.read(8, std::as_writable_bytes(std::span(text)));
    data_begin_ = 8 + length;
    const json header = parse(text);
    for (const auto& [name, description] : header.items())
      if (name != "__metadata__") add(name, description);
  }

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) override {
    file_.read(data_begin_ + begins_.at(index) + offset, out);
  }

 private:
  [[noreturn]] void fail(const std::string& sentence) const { throw InputError(file_.path() + ": " + sentence); }

  json parse(const std::string& text) const {
    std::set<std::string> names;
    const auto refuse = [&](int depth, json::parse_event_t event, json& value) {
      using Event = json::parse_event_t;
      // {name: {key: [numbers]}} is as deep as it goes; without a bound a small file could ask for much memory.
      if ((event == Event::object_start || event == Event::array_start) && depth > 2)
        fail("safetensors header: expected at most three levels of JSON, found more");
      if (event == Event::key && depth == 1 && !names.insert(value.get<std::string>()).second)
        fail(fmt::format("safetensors header: expected each name once, found {} twice",
                         in_quotes(value.get<std::string>())));
      return true;
    };
    try {
      json header = json::parse(text, refuse);
      if (header.is_object()) return header;
    } catch (const json::parse_error& error) {
      fail(fmt::format("safetensors header: expected JSON, found a syntax error at its byte {}", error.byte));
    } catch (const json::out_of_range&) {
      fail("safetensors header: expected numbers of 64 bits, found a larger one");
    }
    fail("safetensors header: expected a JSON object, found another value");
  }

  void add(const std::string& name, const json& description) {
    SourceTensor tensor;
    tensor.file = file_.path();
    tensor.name = name;
    const auto require = [&](bool valid, std::string_view expected, std::string_view found) {
      if (!valid) fail(fmt::format("tensor {}: expected {}, found {}", in_quotes(name), expected, found));
    };
    require(description.is_object(), "a JSON object", "another value");
    for (const char* key : {"dtype", "shape", "data_offsets"}) require(description.contains(key), key, "none");
    require(description["dtype"].is_string(), "a string 'dtype'", "another value");
    tensor.type_name = description["dtype"];

    require(description["shape"].is_array(), "an array 'shape'", "another value");
    for (const json& axis : description["shape"]) {
      require(axis.is_number_unsigned() && axis.get<std::uint64_t>() <= std::uint64_t{1} << 62,
              "axes that are whole numbers", in_quotes(axis.dump()));
      tensor.shape.push_back(axis.get<std::int64_t>());
    }
    const json& offsets = description["data_offsets"];
    require(
        offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned(),
        "two whole numbers 'data_offsets'", in_quotes(offsets.dump()));
    const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    const std::uint64_t data_bytes = file_.size() - data_begin_;
    require(begin <= end && end <= data_bytes, fmt::format("data_offsets within the {} bytes of data", data_bytes),
            fmt::format("[{}, {}]", begin, end));

    if (const auto type = kTypes.find(tensor.type_name); type != kTypes.end()) {
      const auto elements = checked_elements(tensor.shape);
      // Compared by division: a product of two hostile numbers could wrap.
      require(elements && (end - begin) % type->second.bytes == 0 &&
                  (end - begin) / type->second.bytes == static_cast<std::uint64_t>(*elements),
              fmt::format("data_offsets that span shape {} of {}", shape_text(tensor.shape), tensor.type_name),
              fmt::format("{} bytes", end - begin));
      tensor.element_type = type->second.element_type;
    }
    tensor.bits_of_16 = tensor.type_name == "U16" || tensor.type_name == "I16";
    tensors_.push_back(std::move(tensor));
    begins_.push_back(begin);
  }

  InputFile file_;
  std::uint64_t data_begin_ = 0;
  std::vector<SourceTensor> tensors_;
  std::vector<std::uint64_t> begins_;  // of each tensor, from data_begin_
};

}  // namespace

std::unique_ptr<TensorSource> open_safetensors(const std::string& path) {
  return std::make_unique<SafetensorsFile>(path);
}

}  // namespace attest
