// Reads groups, links and attributes.
#include "dumps/hdf5/node.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/hdf5/guarded_child.h"

namespace attest::hdf5 {
namespace {

const char* name_of_class(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_INTEGER:
      return "an integer";
    case H5T_FLOAT:
      return "a float";
    case H5T_STRING:
      return "a string";
    case H5T_BITFIELD:
      return "a bit field";
    case H5T_OPAQUE:
      return "opaque bytes";
    case H5T_COMPOUND:
      return "a compound";
    case H5T_REFERENCE:
      return "a reference";
    case H5T_ENUM:
      return "an enumeration";
    case H5T_VLEN:
      return "a variable-length sequence";
    case H5T_ARRAY:
      return "an array";
    default:
      return "of an unknown type";
  }
}

}  // namespace

Node::Node(std::shared_ptr<const OpenFile> file, std::string path, Handle handle)
    : file_(std::move(file)), path_(std::move(path)), handle_(std::move(handle)) {
  note_object(printable(path_));
}

bool Node::is_group() const { return H5Iget_type(id()) == H5I_GROUP; }
bool Node::is_dataset() const { return H5Iget_type(id()) == H5I_DATASET; }

void Node::fail(std::string_view what) const {
  throw InputError(fmt::format("{}: {}: {}", file_->name, printable(path_), printable(what)));
}

void Node::fail_with_library_error(std::string_view what) const {
  fail(fmt::format("{}, HDF5 says: {}", what, take_error_text()));
}

bool Node::has_attribute(const char* name) const {
  const htri_t exists = H5Aexists(id(), name);
  if (exists < 0) fail_with_library_error(fmt::format("attribute '{}' is damaged", name));
  return exists > 0;
}

Node::Attribute Node::open_attribute(const char* name, std::string_view expected) const {
  if (!has_attribute(name)) fail(fmt::format("attribute '{}' is missing, expected {}", name, expected));
  Attribute opened{.attribute = Handle(H5Aopen(id(), name, H5P_DEFAULT)), .space = {}, .type = {}};
  if (opened.attribute) {
    opened.space = Handle(H5Aget_space(opened.attribute.get()));
    opened.type = Handle(H5Aget_type(opened.attribute.get()));
  }
  if (!opened.space || !opened.type) fail_with_library_error(fmt::format("attribute '{}' is damaged", name));
  return opened;
}

Node::Attribute Node::open_scalar_attribute(const char* name, std::string_view expected) const {
  Attribute opened = open_attribute(name, expected);
  switch (H5Sget_simple_extent_type(opened.space.get())) {
    case H5S_SCALAR:
      return opened;
    case H5S_NULL:
      fail(fmt::format("attribute '{}' holds no value, expected {}", name, expected));
    default:
      fail(fmt::format("attribute '{}' is an array of {} values, expected {}", name,
                       H5Sget_simple_extent_npoints(opened.space.get()), expected));
  }
}

std::string Node::string_attribute(const char* name) const {
  const auto [attribute, space, type] = open_scalar_attribute(name, "a string");
  if (H5Tget_class(type.get()) != H5T_STRING) {
    fail(fmt::format("attribute '{}' is {}, expected a string", name, name_of_class(H5Tget_class(type.get()))));
  }
  const Handle memory_type(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory_type.get(), H5Tget_cset(type.get()));
  std::string value;
  bool read = false;
  if (H5Tis_variable_str(type.get()) > 0) {
    H5Tset_size(memory_type.get(), H5T_VARIABLE);
    char* text = nullptr;
    read = H5Aread(attribute.get(), memory_type.get(), &text) >= 0;
    if (text != nullptr) value = text;
    H5free_memory(text);
  } else {
    const std::size_t size = H5Tget_size(type.get());
    if (static_cast<std::int64_t>(size) > file().bytes) fail(fmt::format("attribute '{}' is damaged", name));
    H5Tset_size(memory_type.get(), size + 1);
    value.resize(size + 1);
    read = H5Aread(attribute.get(), memory_type.get(), value.data()) >= 0;
    value.resize(std::strlen(value.c_str()));
  }
  if (!read) fail_with_library_error(fmt::format("attribute '{}' cannot be read", name));
  return value;
}

std::vector<std::string> Node::string_list_attribute(const char* name, std::size_t max_strings) const {
  const std::string expected = fmt::format("a list of at most {} strings", max_strings);
  const auto [attribute, space, type] = open_attribute(name, expected);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) <= 0 || count < 0 ||
      static_cast<std::size_t>(count) > max_strings)
    fail(fmt::format("attribute '{}' is not {}", name, expected));
  const Handle memory_type(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory_type.get(), H5Tget_cset(type.get()));
  H5Tset_size(memory_type.get(), H5T_VARIABLE);
  std::vector<char*> texts(static_cast<std::size_t>(count), nullptr);
  if (!texts.empty() && H5Aread(attribute.get(), memory_type.get(), texts.data()) < 0)
    fail_with_library_error(fmt::format("attribute '{}' cannot be read", name));
  std::vector<std::string> values;
  for (char* text : texts) {
    values.emplace_back(text != nullptr ? text : "");
    H5free_memory(text);
  }
  return values;
}

std::vector<double> Node::number_list_attribute(const char* name, std::size_t count) const {
  const std::string expected = fmt::format("a list of {} number{}", count, count == 1 ? "" : "s");
  const auto [attribute, space, type] = open_attribute(name, expected);
  const H5T_class_t type_class = H5Tget_class(type.get());
  if ((type_class != H5T_FLOAT && type_class != H5T_INTEGER) || H5Sget_simple_extent_ndims(space.get()) != 1 ||
      std::cmp_not_equal(H5Sget_simple_extent_npoints(space.get()), count))
    fail(fmt::format("attribute '{}' is not {}", name, expected));
  std::vector<double> values(count);
  if (count > 0 && H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, values.data()) < 0)
    fail_with_library_error(fmt::format("attribute '{}' cannot be read", name));
  return values;
}

std::int64_t Node::integer_attribute(const char* name, std::int64_t min, std::int64_t max) const {
  const std::string expected = max == std::numeric_limits<std::int64_t>::max()
                                   ? fmt::format("an integer of at least {}", min)
                                   : fmt::format("an integer from {} to {}", min, max);
  const auto [attribute, space, type] = open_scalar_attribute(name, expected);
  const H5T_class_t type_class = H5Tget_class(type.get());
  std::int64_t value = 0;
  herr_t status = 0;
  if (type_class == H5T_INTEGER) {
    status = H5Aread(attribute.get(), H5T_NATIVE_INT64, &value);  // HDF5 clamps values that do not fit
  } else if (type_class == H5T_FLOAT) {
    double number = 0;
    status = H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &number);
    if (!(std::abs(number) < 0x1p53) || number != std::trunc(number)) {
      fail(fmt::format("attribute '{}' is {}, expected {}", name, number, expected));
    }
    value = static_cast<std::int64_t>(number);
  } else {
    fail(fmt::format("attribute '{}' is {}, expected {}", name, name_of_class(type_class), expected));
  }
  if (status < 0) fail_with_library_error(fmt::format("attribute '{}' cannot be read", name));
  if (value < min || value > max) fail(fmt::format("attribute '{}' is {}, expected {}", name, value, expected));
  return value;
}

double Node::positive_attribute(const char* name) const {
  constexpr const char* kExpected = "a finite number above 0";
  const auto [attribute, space, type] = open_scalar_attribute(name, kExpected);
  const H5T_class_t type_class = H5Tget_class(type.get());
  if (type_class != H5T_FLOAT && type_class != H5T_INTEGER) {
    fail(fmt::format("attribute '{}' is {}, expected {}", name, name_of_class(type_class), kExpected));
  }
  double value = 0;
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0) {
    fail_with_library_error(fmt::format("attribute '{}' cannot be read", name));
  }
  if (!(value > 0) || std::isinf(value)) fail(fmt::format("attribute '{}' is {}, expected {}", name, value, kExpected));
  return value;
}

Group::Group(Node node) : Node(std::move(node)) {
  if (!is_group()) fail("is not a group, expected one");
  struct Visit {
    const Group& group;
    std::vector<std::pair<std::string, H5L_type_t>> links;
  } visit{*this, {}};
  const auto collect = [](hid_t, const char* name, const H5L_info_t* link, void* data) -> herr_t {
    auto& found = *static_cast<Visit*>(data);
    found.links.emplace_back(name, link->type);
    // A link takes more than eight bytes. More links than that would allow mean that the index has a cycle.
    return static_cast<std::int64_t>(found.links.size()) > found.group.file().bytes / 8 ? -1 : 0;
  };
  if (H5Literate(id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &visit) < 0) {
    fail_with_library_error("the group cannot be listed");
  }
  for (const auto& [name, type] : visit.links) {
    if (type == H5L_TYPE_SOFT) {
      check_soft_link(name);
    } else if (type != H5L_TYPE_HARD) {
      fail(fmt::format("'{}' is a link into another file, which is not followed", name));
    }
    names_.push_back(name);
  }
  std::sort(names_.begin(), names_.end());
}

std::vector<std::string> Group::names_as_created() const {
  const Handle creation(H5Gget_create_plist(id()));
  unsigned flags = 0;
  if (!creation || H5Pget_link_creation_order(creation.get(), &flags) < 0 || (flags & H5P_CRT_ORDER_TRACKED) == 0)
    return names_;
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  if (H5Literate(id(), H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect, &names) < 0) return names_;
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  return sorted == names_ ? names : names_;  // a damaged index
}

void Group::check_soft_link(const std::string& name) const {
  if (H5Oexists_by_name(id(), name.c_str(), file().link_access.get()) > 0) return;
  const std::string text = take_error_text();
  fail(fmt::format("'{}' is a soft link that leads nowhere{}{}", name, text.empty() ? "" : ", HDF5 says: ", text));
}

bool Group::contains(std::string_view name) const { return std::binary_search(names_.begin(), names_.end(), name); }

Node Group::open(const std::string& name) const {
  if (!contains(name)) fail(fmt::format("'{}' is missing", name));
  const std::string child = (path() == "/" ? "/" : path() + "/") + name;
  note_object(printable(child));
  Handle handle(H5Oopen(id(), name.c_str(), file().link_access.get()));
  if (!handle) fail_with_library_error(fmt::format("'{}' cannot be opened", name));
  return Node(shared_file(), child, std::move(handle));
}

Group Group::group(const std::string& name) const { return Group(open(name)); }

Group root_of(const std::shared_ptr<const OpenFile>& file) {
  Handle root(H5Gopen2(file->file.get(), "/", H5P_DEFAULT));
  if (!root) {
    throw InputError(
        fmt::format("{}: is truncated or damaged, HDF5 says: {}", file->name, printable(take_error_text())));
  }
  return Group(Node(file, "/", std::move(root)));
}

Group open_group(const InputFile& file, std::string_view path) {
  Group group = root_of(open_file(file));
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view name = path.substr(0, path.find('/'));
    group = group.group(std::string(name));
    path.remove_prefix(name.size());
  }
  return group;
}

}  // namespace attest::hdf5
