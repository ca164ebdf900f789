// Files that hold named arrays, whatever their format: what the import of a dump reads from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/element_type.h"

namespace attest {

/// One array of a file, as the file describes it; its values are not read yet.
struct SourceTensor {
  std::string file;  ///< path, for messages
  std::string name;
  std::string type_name;                    ///< as the file spells it: "BF16", "<f4", ...
  std::optional<ElementType> element_type;  ///< empty when a dump cannot hold the type
  bool bits_of_16 = false;                  ///< untyped or integer 16 bits, which may be bfloat16 in disguise
  std::vector<std::int64_t> shape;
  bool column_major = false;  ///< first axis varies fastest (Fortran order)

  std::int64_t elements() const;
  std::string place() const;  ///< "FILE: tensor 'NAME'"
};

/// A name from an untrusted file for a message: in quotes, on one line, not too long.
std::string in_quotes(std::string_view name);

/// "[2, 3]".
std::string shape_text(std::span<const std::int64_t> shape);

/// Product of the axes, or empty when one is negative or the product exceeds 2^62.
std::optional<std::int64_t> checked_elements(std::span<const std::int64_t> shape);

/// Files are untrusted: what tensors() lists has been checked against the size of its file.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual const std::vector<SourceTensor>& tensors() const = 0;

  /// Fills `out` with the bytes of tensor `index` (of tensors()) from `offset`, little endian, in the file's order.
  /// Cheap at any offset, but for compressed members, where going back starts again from the first byte.
  /// Throws InputError when they cannot be read.
  virtual void read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) = 0;
};

/// Opens a safetensors file, an npz archive, or a folder of either: in a folder with NAME.safetensors.index.json the
/// files that it lists, else all files *.safetensors or *.npz. Where a name occurs in several files of a folder, every
/// name becomes FILE/NAME, FILE without its extension. Throws InputError of one sentence.
std::unique_ptr<TensorSource> open_tensor_source(const std::string& path);

}  // namespace attest
