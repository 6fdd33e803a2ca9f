// SPDX-License-Identifier: Apache-2.0
/// \file
/// Part of tutti.hpp: element types, what a collective can read and write, and memory made for it.
#ifndef TUTTI_BUFFERS_HPP
#define TUTTI_BUFFERS_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>

#include "tutti/status.hpp"

namespace tutti {

// ---- Buffers and element types ----------------------------------------------------------------------------------

/// Storage of the 16-bit floats: bits only, for who has no type of their own. A type with the same bits (an arithmetic
/// library's half) joins by specialising ElementType.
struct Float16 {
  std::uint16_t bits = 0;
  bool operator==(const Float16&) const = default;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
  bool operator==(const Bfloat16&) const = default;
};

/// The 8-bit floats of the OCP OFP8 specification, as bits.
struct Float8E4m3 {
  std::uint8_t bits = 0;
  bool operator==(const Float8E4m3&) const = default;
};
struct Float8E5m2 {
  std::uint8_t bits = 0;
  bool operator==(const Float8E5m2&) const = default;
};

/// Maps a C++ type to the DataType with the same bits: `static constexpr DataType value`. Integers map by size and
/// sign.
template <class T>
struct ElementType {};
template <>
struct ElementType<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct ElementType<double> {
  static constexpr DataType value = DataType::float64;
};
template <>
struct ElementType<Float16> {
  static constexpr DataType value = DataType::float16;
};
template <>
struct ElementType<Bfloat16> {
  static constexpr DataType value = DataType::bfloat16;
};
template <>
struct ElementType<Float8E4m3> {
  static constexpr DataType value = DataType::float8_e4m3;
};
template <>
struct ElementType<Float8E5m2> {
  static constexpr DataType value = DataType::float8_e5m2;
};
template <>
struct ElementType<bool> {
  static constexpr DataType value = DataType::boolean;
};
template <>
struct ElementType<std::byte> {
  static constexpr DataType value = DataType::uint8;
};
template <class T>
concept MappedInteger =
    std::integral<T> && !std::same_as<T, bool> && (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8);
template <MappedInteger T>
struct ElementType<T> {
  static constexpr DataType value = sizeof(T) == 1   ? (std::is_signed_v<T> ? DataType::int8 : DataType::uint8)
                                    : sizeof(T) == 4 ? (std::is_signed_v<T> ? DataType::int32 : DataType::uint32)
                                                     : (std::is_signed_v<T> ? DataType::int64 : DataType::uint64);
};

template <class T>
concept Element = requires {
  { ElementType<std::remove_const_t<T>>::value } -> std::convertible_to<DataType>;
};

/// What a collective can read: contiguous elements that outlive the expression (a vector, array, span, Buffer).
template <class R>
concept Input = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && std::ranges::borrowed_range<R> &&
    Element<std::ranges::range_value_t<R>>;
/// What a collective can write.
template <class R>
concept Output = Input<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
/// An output of the same element type as the input `In`.
template <class R, class In>
concept OutputFor =
    Output<R> && std::same_as<std::ranges::range_value_t<R>, std::remove_const_t<std::ranges::range_value_t<In>>>;

/// Memory from tutti_alloc for `size()` elements: page-aligned, touched, mappable by every local rank: the fastest
/// kind of buffer. A contiguous range.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "Buffer holds plain data");

 public:
  Buffer() = default;  ///< empty
  /// Errors: invalid_argument (bytes overflow), unavailable (memory).
  static Result<Buffer> make(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T))
      return Status(Code::invalid_argument, "Buffer::make: count " + std::to_string(count) + " of " +
                                                std::to_string(sizeof(T)) + " bytes each is more than size_t holds");
    void* pointer = nullptr;
    const Status status = Status::from_c(tutti_alloc(count * sizeof(T), &pointer));
    if (!status) return status;
    return Buffer(static_cast<T*>(pointer), count);
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~Buffer() { tutti_free(data_); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t index) noexcept { return data_[index]; }
  const T& operator[](std::size_t index) const noexcept { return data_[index]; }

 private:
  Buffer(T* data, std::size_t size) : data_(data), size_(size) {}
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// An announced buffer (Communicator::register_buffer). Deregisters when destroyed: before the memory is freed and
/// before the communicator goes.
class Registration {
 public:
  Registration() = default;  ///< empty
  explicit Registration(tutti_registration* handle) : handle_(handle) {}
  Registration(Registration&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    Registration taken(std::move(other));
    std::swap(handle_, taken.handle_);
    return *this;
  }
  ~Registration() {
    if (handle_ != nullptr) tutti_deregister_buffer(handle_);
  }

 private:
  tutti_registration* handle_ = nullptr;
};

}  // namespace tutti

#endif  // TUTTI_BUFFERS_HPP
