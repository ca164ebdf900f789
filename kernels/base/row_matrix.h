// Workspace matrix of the CPU path: row-major; memory is reused after resize() and never cleared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace attest {

template <class T>
class RowMatrix {
 public:
  RowMatrix() = default;
  /// The other matrix becomes empty.
  RowMatrix(RowMatrix&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, {})) {}
  RowMatrix& operator=(RowMatrix&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, {});
    return *this;
  }

  /// The content is undefined afterwards. Rows are aligned to 64 bytes.
  void resize(std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t kPerLine = 64 / sizeof(T);
    size_.rows = rows;
    size_.columns = columns;
    size_.stride = (columns + kPerLine - 1) / kPerLine * kPerLine;
    const std::size_t needed = static_cast<std::size_t>(rows * size_.stride);
    if (needed > size_.capacity) {
      data_.reset();
      data_.reset(static_cast<T*>(::operator new (needed * sizeof(T), std::align_val_t{64})));
      size_.capacity = needed;
    }
  }

  std::int64_t rows() const { return size_.rows; }
  std::int64_t columns() const { return size_.columns; }
  std::int64_t stride() const { return size_.stride; }
  bool empty() const { return size_.rows == 0; }
  T* row(std::int64_t r) { return data_.get() + r * size_.stride; }
  const T* row(std::int64_t r) const { return data_.get() + r * size_.stride; }
  std::span<const T> row(std::int64_t r, std::int64_t count) const { return {row(r), static_cast<std::size_t>(count)}; }
  std::span<T> row(std::int64_t r, std::int64_t count) { return {row(r), static_cast<std::size_t>(count)}; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
  struct Size {
    std::size_t capacity = 0;
    std::int64_t rows = 0, columns = 0, stride = 0;
  } size_;
};

}  // namespace attest
