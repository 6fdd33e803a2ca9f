// SPDX-License-Identifier: Apache-2.0
// Little-endian reading and writing of wire messages. A reader never looks past its end: after the first short read
// every further one gives zero and ok() stays false, so a parser checks once, at the end of a message.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::core {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian: add byte swaps for this machine");

class ByteWriter {
 public:
  template <std::integral T>
  void write(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    buffer_.append(raw, sizeof(T));
  }
  void write_bytes(const void* data, std::size_t bytes) { buffer_.append(static_cast<const char*>(data), bytes); }
  /// 32-bit length, then the bytes.
  void write_text(std::string_view text) {
    write(static_cast<std::uint32_t>(text.size()));
    buffer_.append(text);
  }
  const std::string& buffer() const { return buffer_; }
  std::string take() { return std::move(buffer_); }

 private:
  std::string buffer_;
};

/// Reads from memory that must outlive it.
class ByteReader {
 public:
  ByteReader(const void* data, std::size_t bytes) : next_(static_cast<const char*>(data)), left_(bytes) {}
  explicit ByteReader(std::string_view data) : ByteReader(data.data(), data.size()) {}

  template <std::integral T>
  T read() {
    T value{};
    read_bytes(&value, sizeof(T));
    return value;
  }
  /// Fills `data` with zeros when fewer bytes are left.
  void read_bytes(void* data, std::size_t bytes) {
    if (const char* from = take(bytes))
      std::memcpy(data, from, bytes);
    else
      std::memset(data, 0, bytes);
  }
  /// What write_text wrote; empty on a length beyond the end or beyond `most_bytes`.
  std::string_view read_text(std::size_t most_bytes) {
    const std::size_t bytes = read<std::uint32_t>();
    if (bytes > most_bytes) {
      fail();
      return {};
    }
    const char* from = take(bytes);
    return from != nullptr ? std::string_view(from, bytes) : std::string_view();
  }

  bool ok() const { return ok_; }
  std::size_t left() const { return left_; }
  /// Everything was there and nothing is left over.
  bool finished() const { return ok_ && left_ == 0; }
  /// For a parser that finds a value it cannot accept.
  void fail() {
    ok_ = false;
    left_ = 0;
  }

 private:
  const char* take(std::size_t bytes) {
    if (bytes > left_) fail();
    if (!ok_) return nullptr;
    const char* from = next_;
    next_ += bytes;
    left_ -= bytes;
    return from;
  }

  const char* next_;
  std::size_t left_;
  bool ok_ = true;
};

}  // namespace tutti::core
