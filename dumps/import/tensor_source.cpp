// What all formats share, and folders of files.
#include "dumps/import/tensor_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/printable.h"
#include "dumps/import/npz.h"
#include "dumps/import/safetensors.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<TensorSource> open_file(const std::string& path) {
  const InputFile file(path);
  std::vector<std::byte> start(std::min<std::uint64_t>(file.size(), 9));
  file.read(0, start);
  const auto begins_with = [&](std::string_view magic) {
    return start.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), start.begin(), [](char a, std::byte b) { return std::byte(a) == b; });
  };
  if (begins_with("PK")) return open_npz(path);
  if (begins_with("\x89HDF"))
    throw InputError(path + ": expected safetensors or npz, found HDF5 (a dump needs no import)");
  if (begins_with("\x93NUMPY"))
    throw InputError(path + ": expected safetensors or npz, found a single NumPy array (numpy.savez holds several)");
  if (start.size() == 9 && start[8] == std::byte{'{'}) return open_safetensors(path);
  throw InputError(path + ": expected safetensors or npz, found neither");
}

/// The distinct files that a safetensors index names.
std::vector<fs::path> indexed_files(const fs::path& index) {
  const InputFile file(index.string());
  constexpr std::uint64_t most = 100'000'000;
  if (file.size() > most)
    throw InputError(
        fmt::format("{}: expected an index of at most {} bytes, found {}", file.path(), most, file.size()));
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto malformed = [&](std::string_view what) { return InputError(fmt::format("{}: {}", file.path(), what)); };
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    throw malformed("expected a JSON object with an object 'weight_map', found none");
  std::set<fs::path> files;
  for (const auto& name : json["weight_map"]) {
    // A plain name: an index must not lead out of its folder.
    if (!name.is_string()) throw malformed("expected file names in 'weight_map', found another type");
    const fs::path plain = name.get<std::string>();
    if (plain.empty() || plain != plain.filename() || plain == "." || plain == "..")
      throw malformed(fmt::format("expected a file name in 'weight_map', found {}", in_quotes(plain.string())));
    files.insert(index.parent_path() / plain);
  }
  return {files.begin(), files.end()};
}

std::vector<fs::path> files_of_folder(const fs::path& folder) {
  std::vector<fs::path> indices, files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors.index.json")) indices.push_back(entry.path());
    if (name.ends_with(".safetensors") || name.ends_with(".npz")) files.push_back(entry.path());
  }
  if (failed) throw InputError(fmt::format("{}: cannot be read ({})", folder.string(), failed.message()));
  if (indices.size() > 1)
    throw InputError(
        fmt::format("{}: expected one *.safetensors.index.json, found {}", folder.string(), indices.size()));
  if (indices.size() == 1) files = indexed_files(indices.front());
  if (files.empty()) throw InputError(folder.string() + ": expected *.safetensors or *.npz files, found none");
  std::ranges::sort(files);
  return files;
}

/// Several files as one source.
class FolderSource final : public TensorSource {
 public:
  explicit FolderSource(const std::vector<fs::path>& files) {
    std::set<std::string> names;
    bool unique = true;
    for (const fs::path& path : files) {
      sources_.push_back(open_file(path.string()));
      for (std::size_t i = 0; i < sources_.back()->tensors().size(); ++i) {
        tensors_.push_back(sources_.back()->tensors()[i]);
        origins_.emplace_back(sources_.size() - 1, i);
        unique = names.insert(tensors_.back().name).second && unique;
      }
    }
    if (unique) return;
    for (SourceTensor& tensor : tensors_) tensor.name = fs::path(tensor.file).stem().string() + "/" + tensor.name;
  }

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

  void read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) override {
    const auto [source, tensor] = origins_.at(index);
    sources_[source]->read(tensor, offset, out);
  }

 private:
  std::vector<std::unique_ptr<TensorSource>> sources_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::pair<std::size_t, std::size_t>> origins_;  // source, tensor in it
};

}  // namespace

std::int64_t SourceTensor::elements() const { return checked_elements(shape).value_or(0); }

std::string SourceTensor::place() const { return fmt::format("{}: tensor {}", file, in_quotes(name)); }

std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 120;
  return "'" + printable(name.substr(0, longest)) + (name.size() > longest ? "...'" : "'");
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::optional<std::int64_t> checked_elements(std::span<const std::int64_t> shape) {
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t elements = 1;
  for (const std::int64_t axis : shape)
    if (axis < 0 || (axis > 0 && elements > most / axis))
      return std::nullopt;
    else
      elements *= axis;
  return elements;
}

std::unique_ptr<TensorSource> open_tensor_source(const std::string& path) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) return std::make_unique<FolderSource>(files_of_folder(path));
  return open_file(path);
}

}  // namespace attest
