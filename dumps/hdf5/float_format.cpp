// Reads and makes float types of HDF5, and describes any type.
#include "dumps/hdf5/float_format.h"

#include <fmt/core.h>

namespace attest::hdf5 {
namespace {

FloatFormat float_format(hid_t type) {
  FloatFormat format{};
  format.bytes = H5Tget_size(type);
  H5Tget_fields(type, &format.sign, &format.exponent, &format.exponent_bits, &format.mantissa, &format.mantissa_bits);
  format.bias = H5Tget_ebias(type);
  return format;
}

const char* name_of_order(hid_t type) { return H5Tget_order(type) == H5T_ORDER_LE ? "little-endian" : "big-endian"; }

}  // namespace

bool fills_its_bytes(hid_t type) { return H5Tget_offset(type) == 0 && H5Tget_precision(type) == 8 * H5Tget_size(type); }

std::optional<FloatFormat> plain_float(hid_t type) {
  const bool plain = H5Tget_class(type) == H5T_FLOAT && H5Tget_order(type) == H5T_ORDER_LE && fills_its_bytes(type) &&
                     H5Tget_norm(type) == H5T_NORM_IMPLIED;
  H5Eclear2(H5E_DEFAULT);
  return plain ? std::optional(float_format(type)) : std::nullopt;
}

Handle make_type(const FloatFormat& format) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE));
  if (format == kFloat32) return type;
  H5Tset_fields(type.get(), format.sign, format.exponent, format.exponent_bits, format.mantissa, format.mantissa_bits);
  H5Tset_size(type.get(), format.bytes);
  H5Tset_ebias(type.get(), format.bias);
  return type;
}

std::string describe(hid_t type) {
  const auto bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{} {} of {} bits", name_of_order(type),
                         H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned integer" : "integer", bits);
    case H5T_FLOAT: {
      const FloatFormat format = float_format(type);
      return fmt::format("{} float of {} bits ({} of exponent, {} of mantissa)", name_of_order(type), bits,
                         format.exponent_bits, format.mantissa_bits);
    }
    case H5T_STRING:
      return "string";
    case H5T_REFERENCE:
      return "reference";
    case H5T_COMPOUND:
      return "compound";
    case H5T_ENUM:
      return "enumeration";
    default:
      return "neither integer nor float";
  }
}

}  // namespace attest::hdf5
