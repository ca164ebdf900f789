// Workspace matrix of the CPU path: row-major; memory is reused after resize() and never cleared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace attest {

template <class T>
class RowMatrix {
 public:
  RowMatrix() = default;

  /// The content is undefined afterwards. Rows are aligned to 64 bytes.
  void resize(std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t kPerLine = 64 / sizeof(T);
    rows_ = rows;
    columns_ = columns;
    stride_ = (columns + kPerLine - 1) / kPerLine * kPerLine;
    const std::size_t needed = static_cast<std::size_t>(rows_ * stride_);
    if (needed > capacity_) {
      data_.reset();
      data_.reset(static_cast<T*>(::operator new (needed * sizeof(T), std::align_val_t{64})));
      capacity_ = needed;
    }
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0; }
  T* row(std::int64_t r) { return data_.get() + r * stride_; }
  const T* row(std::int64_t r) const { return data_.get() + r * stride_; }
  std::span<const T> row(std::int64_t r, std::int64_t count) const { return {row(r), static_cast<std::size_t>(count)}; }
  std::span<T> row(std::int64_t r, std::int64_t count) { return {row(r), static_cast<std::size_t>(count)}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t capacity_ = 0;
  std::int64_t rows_ = 0, columns_ = 0, stride_ = 0;
};

}  // namespace attest
