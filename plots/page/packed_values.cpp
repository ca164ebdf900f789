// Decimal codes of numbers, byte planes, zlib, base64.
#include "plots/page/packed_values.h"

#include <zlib.h>

#include <array>
#include <cmath>
#include <stdexcept>

namespace attest {
namespace {

constexpr int kFinestDecade = -7;  // of kFinestStep
constexpr int kPlanes = 3;

double power_of_ten(int exponent) {
  // Exact, so that the quotient below is rounded once: 1e-7 is no double, 1e7 is one.
  static const auto powers = [] {
    std::array<double, 64> table{};
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = std::stod("1e" + std::to_string(i));
    return table;
  }();
  return powers.at(static_cast<std::size_t>(exponent));
}

/// `value` in units of 10^exponent.
double in_units(double value, int exponent) {
  return exponent < 0 ? value * power_of_ten(-exponent) : value / power_of_ten(exponent);
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t k) {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u;
    };
    const unsigned three = byte(0) << 16 | byte(1) << 8 | byte(2);
    text += kDigits[three >> 18];
    text += kDigits[three >> 12 & 63];
    text += i + 1 < bytes.size() ? kDigits[three >> 6 & 63] : '=';
    text += i + 2 < bytes.size() ? kDigits[three & 63] : '=';
  }
  return text;
}

std::uint32_t packed_code(double value, int digits) {
  if (std::isnan(value)) return kPackedNaN;
  if (std::isinf(value)) return value > 0 ? kPackedInf : kPackedMinusInf;
  const double size = std::fabs(value);
  const auto sign = static_cast<std::uint32_t>(std::signbit(value));
  const auto minimum = static_cast<std::uint32_t>(power_of_ten(digits - 1));  // mantissas are least .. 10 * least - 1
  const int first_decade = kFinestDecade + digits;                            // below it, multiples of kFinestStep

  std::uint32_t code = 0;
  int decade = size > 0 ? static_cast<int>(std::floor(std::log10(size))) : first_decade - 1;
  if (decade >= first_decade - 1) {
    double mantissa = std::round(in_units(size, decade - digits + 1));
    if (mantissa < minimum) mantissa = std::round(in_units(size, --decade - digits + 1));  // log10 was rounded up
    if (mantissa >= 10.0 * minimum) mantissa = minimum, ++decade;
    if (decade >= first_decade)
      code = 10 * minimum + static_cast<std::uint32_t>(decade - first_decade) * 9 * minimum +
             (static_cast<std::uint32_t>(mantissa) - minimum);
  }
  if (code == 0) code = static_cast<std::uint32_t>(std::round(in_units(size, kFinestDecade)));
  return code == 0 ? 0 : code << 1 | sign;
}

std::string packed_bytes(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                Z_DEFAULT_COMPRESSION) != Z_OK)
    throw std::runtime_error("zlib cannot compress an array");
  out.resize(size);
  return base64(out);
}

std::string pack_values(std::span<const double> values, int digits, bool missing_to_one) {
  std::string planes(values.size() * kPlanes, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    const std::uint32_t code = packed_code(missing_to_one ? 1 - x : x, digits);
    for (int plane = 0; plane < kPlanes; ++plane)
      planes[static_cast<std::size_t>(plane) * values.size() + i] = static_cast<char>(code >> (8 * plane));
  }
  return packed_bytes(planes);
}

}  // namespace attest
