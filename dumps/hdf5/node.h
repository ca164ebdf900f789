// Groups, links and attributes of an untrusted HDF5 file. Anything unexpected becomes an InputError of the form "FILE:
// OBJECT: what was found, what was expected". Callers hold a Lock or run in a guarded child.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/input_file.h"
#include "dumps/hdf5/handle.h"
#include "dumps/hdf5/open_file.h"

namespace attest::hdf5 {

/// An open object of any kind.
class Node {
 public:
  Node(std::shared_ptr<const OpenFile> file, std::string path, Handle handle);

  hid_t id() const { return handle_.get(); }
  const std::string& path() const { return path_; }
  const OpenFile& file() const { return *file_; }
  bool is_group() const;
  bool is_dataset() const;

  /// "FILE: OBJECT: what"
  [[noreturn]] void fail(std::string_view what) const;
  /// The same, with the text of the HDF5 error that has just occurred.
  [[noreturn]] void fail_with_library_error(std::string_view what) const;

  bool has_attribute(const char* name) const;
  /// A scalar string, of fixed or variable length.
  std::string string_attribute(const char* name) const;
  /// A list of at most `max_strings` strings of variable length.
  std::vector<std::string> string_list_attribute(const char* name, std::size_t max_strings) const;
  /// A list of `count` floats or integers.
  std::vector<double> number_list_attribute(const char* name, std::size_t count) const;
  /// A scalar integer of any width, or a float with an integral value, in [min, max].
  std::int64_t integer_attribute(const char* name, std::int64_t min, std::int64_t max) const;
  /// A scalar float or integer; finite and above 0.
  double positive_attribute(const char* name) const;

 protected:
  std::shared_ptr<const OpenFile> shared_file() const { return file_; }

 private:
  struct Attribute {
    Handle attribute, space, type;
  };
  /// Fails unless the attribute exists.
  Attribute open_attribute(const char* name, std::string_view expected) const;
  /// Also fails unless it is one value and no array.
  Attribute open_scalar_attribute(const char* name, std::string_view expected) const;

  std::shared_ptr<const OpenFile> file_;
  std::string path_;
  Handle handle_;
};

/// Fails when the group has a link into another file or a dangling link, whatever its name.
class Group : public Node {
 public:
  explicit Group(Node node);

  const std::vector<std::string>& names() const { return names_; }  ///< ascending by their bytes
  /// In the order of creation if the file records it, else as names().
  std::vector<std::string> names_as_created() const;
  bool contains(std::string_view name) const;
  Node open(const std::string& name) const;    ///< fails when there is no such object
  Group group(const std::string& name) const;  ///< also fails when it is not a group

 private:
  void check_soft_link(const std::string& name) const;

  std::vector<std::string> names_;
};

Group root_of(const std::shared_ptr<const OpenFile>& file);

/// The group at an absolute path such as "/samples/s" of a file that HDF5 has not opened yet.
Group open_group(const InputFile& file, std::string_view path);

}  // namespace attest::hdf5
