// SPDX-License-Identifier: Apache-2.0
// SHA-256, HMAC-SHA-256 and random bytes for the handshake.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "src/base/status.h"

namespace tutti::core {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::string_view data);
/// RFC 2104 over SHA-256.
Digest hmac_sha256(std::span<const unsigned char> key, std::string_view data);
/// Takes the same time wherever the two differ.
bool equal_in_constant_time(const Digest& a, const Digest& b);
/// From the kernel's generator. Errors: unavailable.
Status fill_random(std::span<unsigned char> bytes);

}  // namespace tutti::core
