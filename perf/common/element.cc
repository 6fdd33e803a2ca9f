// SPDX-License-Identifier: Apache-2.0
#include "perf/common/element.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace tutti::perf {

size_t element_bytes(tutti_dtype type) {
  return with_element(type, [](auto element) { return sizeof(typename decltype(element)::Bits); });
}

uint64_t encode_number(tutti_dtype type, int number) {
  return with_element(type, [number](auto traits) -> uint64_t {
    using Traits = decltype(traits);
    if constexpr (Traits::kFloat) {
      return Traits::encode(static_cast<double>(number));
    } else {
      return static_cast<typename Traits::Bits>(number);
    }
  });
}

bool is_floating(tutti_dtype type) {
  return with_element(type, [](auto element) { return decltype(element)::kFloat; });
}

bool is_reducible(tutti_dtype type, tutti_op op, bool premultiplied) {
  const bool bitwise = op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR;
  return type == TUTTI_BOOL ? op != TUTTI_AVG && !premultiplied : !bitwise || !is_floating(type);
}

std::string describe_element(tutti_dtype type, const void* element) {
  return with_element(type, [element](auto traits) {
    using Traits = decltype(traits);
    typename Traits::Bits bits{};
    std::memcpy(&bits, element, sizeof bits);
    char text[80];
    const int digits = static_cast<int>(2 * sizeof bits);
    const uint64_t wide = bits;
    if constexpr (Traits::kFloat) {
      std::snprintf(text, sizeof text, "%.17g (0x%0*" PRIx64 ")", Traits::decode(bits), digits, wide);
    } else if constexpr (std::is_signed_v<typename Traits::Value>) {
      const auto value = static_cast<int64_t>(static_cast<typename Traits::Value>(bits));
      std::snprintf(text, sizeof text, "%" PRId64 " (0x%0*" PRIx64 ")", value, digits, wide);
    } else {
      std::snprintf(text, sizeof text, "%" PRIu64 " (0x%0*" PRIx64 ")", wide, digits, wide);
    }
    return std::string(text);
  });
}

}  // namespace tutti::perf
