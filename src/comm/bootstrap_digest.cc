// SPDX-License-Identifier: Apache-2.0
// The low-level SHA-256 functions, not EVP: they need no provider, no configuration file and no atexit handler, so the
// copy of libcrypto hidden in libtutti never meets the host application's, and only a few objects are linked.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "src/comm/bootstrap_digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>

namespace tutti::core {

Digest sha256(std::string_view data) {
  Digest digest;
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, data.data(), data.size());
  SHA256_Final(digest.data(), &context);
  return digest;
}

Digest hmac_sha256(std::span<const unsigned char> key, std::string_view data) {
  std::array<unsigned char, SHA256_CBLOCK> block{};
  if (key.size() > block.size()) {
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, key.data(), key.size());
    SHA256_Final(block.data(), &context);
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  Digest digest;
  SHA256_CTX context;
  for (unsigned char& byte : block) byte ^= 0x36;  // inner pad
  SHA256_Init(&context);
  SHA256_Update(&context, block.data(), block.size());
  SHA256_Update(&context, data.data(), data.size());
  SHA256_Final(digest.data(), &context);
  for (unsigned char& byte : block) byte ^= 0x36 ^ 0x5c;  // outer pad
  SHA256_Init(&context);
  SHA256_Update(&context, block.data(), block.size());
  SHA256_Update(&context, digest.data(), digest.size());
  SHA256_Final(digest.data(), &context);
  OPENSSL_cleanse(block.data(), block.size());
  return digest;
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Status fill_random(std::span<unsigned char> bytes) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(errno, "getrandom: no random numbers");
    filled += static_cast<std::size_t>(got);
  }
  return Status::ok();
}

}  // namespace tutti::core
