// SPDX-License-Identifier: Apache-2.0
#include "src/comm/handshake.h"

#include <gtest/gtest.h>

#include "src/comm/bootstrap_digest.h"

namespace tutti::core::test {
namespace {

std::string hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

HandshakeIdentity identity(HandshakeRole role, unsigned char nonce) {
  HandshakeIdentity self;
  self.role = role;
  self.member = role == HandshakeRole::connector ? 300'000u : 0u;
  self.job.fill(0x5a);
  self.secret.fill(0x77);
  self.nonce.fill(nonce);
  return self;
}

HandshakeIdentity connector() { return identity(HandshakeRole::connector, 1); }
HandshakeIdentity listener() { return identity(HandshakeRole::listener, 2); }

/// Carries bytes between the two, at most `piece` at a time, until neither has anything to take.
void talk(Handshake& a, Handshake& b, std::size_t piece = 1000) {
  std::string to_b = a.hello(), to_a = b.hello();
  while (true) {
    const std::size_t for_b = std::min({piece, b.want(), to_b.size()});
    to_a += b.feed(to_b.substr(0, for_b));
    to_b.erase(0, for_b);
    const std::size_t for_a = std::min({piece, a.want(), to_a.size()});
    to_b += a.feed(to_a.substr(0, for_a));
    to_a.erase(0, for_a);
    if (for_a == 0 && for_b == 0) return;
  }
}

TEST(Digest, sha256_and_hmac_match_the_published_vectors) {
  // FIPS 180-2 appendix B.1, B.2.
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  // RFC 4231, test cases 1, 2, 3 and 6 (a key longer than a block).
  const std::vector<unsigned char> first(20, 0x0b), third(20, 0xaa), sixth(131, 0xaa);
  const std::vector<unsigned char> second = {'J', 'e', 'f', 'e'};
  EXPECT_EQ(hex(hmac_sha256(first, "Hi There")), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(second, "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(third, std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hex(hmac_sha256(sixth, "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Digest, random_bytes_differ) {
  Digest a{}, b{};
  ASSERT_TRUE(fill_random(a).is_ok());
  ASSERT_TRUE(fill_random(b).is_ok());
  EXPECT_FALSE(equal_in_constant_time(a, b));
  EXPECT_TRUE(equal_in_constant_time(a, a));
}

TEST(Handshake, proves_both_sides_whatever_the_pieces) {
  for (std::size_t piece = 1; piece <= 161; piece += 5) {
    Handshake a(connector()), b(listener());
    talk(a, b, piece);
    EXPECT_EQ(a.state(), Handshake::State::proved);
    EXPECT_EQ(b.state(), Handshake::State::proved);
    EXPECT_EQ(b.peer_member(), 300'000u);
    EXPECT_EQ(a.peer_member(), 0u);
    EXPECT_EQ(a.version(), kProtocolVersion);
    EXPECT_EQ(a.want(), 0u);
    EXPECT_EQ(b.peer_build().substr(0, 6), "tutti ");
  }
}

TEST(Handshake, takes_nothing_beyond_its_own_bytes) {
  Handshake a(connector()), b(listener());
  std::string to_b = a.hello();
  std::size_t taken = 0;
  while (b.want() > 0 && taken < to_b.size()) {
    const std::size_t now = std::min(b.want(), to_b.size() - taken);
    b.feed(to_b.substr(taken, now));
    taken += now;
  }
  EXPECT_EQ(taken, kHelloBytes);
  EXPECT_EQ(b.want(), kProofBytes);
}

TEST(Handshake, another_secret_is_refused_on_both_sides) {
  HandshakeIdentity stranger = connector();
  stranger.secret[31] ^= 1;
  Handshake a(stranger), b(listener());
  talk(a, b);
  for (const Handshake* side : {&a, &b}) {
    EXPECT_EQ(side->state(), Handshake::State::refused);
    EXPECT_EQ(side->refusal().message(), "the other process does not know the secret of job 5a5a5a5a");
  }
}

TEST(Handshake, another_job_is_refused_by_name_before_any_proof) {
  HandshakeIdentity stranger = connector();
  stranger.job.fill(0x11);
  Handshake a(stranger), b(listener());
  EXPECT_EQ(b.feed(a.hello().substr(0, 16)), "");
  EXPECT_EQ(b.feed(a.hello().substr(16)), "");
  EXPECT_EQ(b.state(), Handshake::State::refused);
  EXPECT_EQ(b.refusal().message(), "the other process belongs to job 11111111, not to job 5a5a5a5a");
}

TEST(Handshake, version_skew_is_refused_in_a_sentence_with_both_versions) {
  struct Case {
    std::uint16_t min_a, max_a, min_b, max_b, agreed;
  };
  for (const Case& c :
       {Case{1, 1, 1, 1, 1}, Case{1, 3, 2, 9, 3}, Case{4, 9, 1, 4, 4}, Case{2, 2, 3, 4, 0}, Case{5, 6, 1, 4, 0}}) {
    HandshakeIdentity old = connector(), fresh = listener();
    old.min_version = c.min_a;
    old.max_version = c.max_a;
    fresh.min_version = c.min_b;
    fresh.max_version = c.max_b;
    Handshake a(old), b(fresh);
    talk(a, b);
    if (c.agreed != 0) {
      EXPECT_EQ(a.state(), Handshake::State::proved);
      EXPECT_EQ(a.version(), c.agreed);
      EXPECT_EQ(b.version(), c.agreed);
      continue;
    }
    EXPECT_EQ(a.refusal().code(), TUTTI_UNSUPPORTED);
    EXPECT_EQ(b.refusal().code(), TUTTI_UNSUPPORTED);
    EXPECT_NE(a.refusal().message().find("the other " + std::to_string(c.min_b)), std::string::npos)
        << a.refusal().message();
    EXPECT_NE(a.refusal().message().find("this process speaks " + std::to_string(c.min_a)), std::string::npos);
  }
}

TEST(Handshake, a_longer_hello_of_a_later_version_is_refused_by_its_first_bytes) {
  HandshakeIdentity later = connector();
  later.min_version = later.max_version = 7;
  Handshake a(later), b(listener());
  b.feed(a.hello().substr(0, 16));
  EXPECT_EQ(b.state(), Handshake::State::refused);
  EXPECT_EQ(b.refusal().code(), TUTTI_UNSUPPORTED);
}

TEST(Handshake, garbage_is_refused_at_its_first_wrong_byte) {
  Handshake b(listener());
  EXPECT_EQ(b.feed("G"), "");
  EXPECT_EQ(b.state(), Handshake::State::refused);
  EXPECT_EQ(b.want(), 0u);
  EXPECT_EQ(b.feed("more"), "");  // harmless
  Handshake c(listener());
  c.feed("GET / \x1b[2J HTTP/");
  EXPECT_NE(c.refusal().message().find("\"GET / ?[2J HTTP/\""), std::string::npos) << c.refusal().message();
}

TEST(Handshake, every_flipped_bit_is_refused) {
  const std::string hello = Handshake(connector()).hello();
  for (std::size_t bit = 0; bit < 8 * (kHelloBytes + kProofBytes); ++bit) {
    Handshake a(connector()), b(listener());
    std::string to_b = hello;
    std::string to_a = b.hello();
    std::string proof;
    while (a.want() > 0 && !to_a.empty()) {
      const std::size_t now = std::min(a.want(), to_a.size());
      proof += a.feed(to_a.substr(0, now));
      to_a.erase(0, now);
    }
    to_b += proof;
    ASSERT_EQ(to_b.size(), kHelloBytes + kProofBytes);
    to_b[bit / 8] = static_cast<char>(to_b[bit / 8] ^ (1 << bit % 8));
    while (b.want() > 0 && !to_b.empty()) {
      const std::size_t now = std::min(b.want(), to_b.size());
      b.feed(to_b.substr(0, now));
      to_b.erase(0, now);
    }
    ASSERT_NE(b.state(), Handshake::State::proved) << "bit " << bit;
    // The lowest versions may still overlap; the proof then fails, since it covers all of the hello.
    ASSERT_EQ(b.state(), Handshake::State::refused) << "bit " << bit;
  }
}

TEST(Handshake, a_recorded_handshake_cannot_be_played_back) {
  Handshake a(connector()), b(listener());
  std::string recorded = a.hello();
  std::string from_b = b.hello();
  b.feed(recorded.substr(0, 16));
  std::string proof_of_b = b.feed(recorded.substr(16));
  a.feed(from_b.substr(0, 16));
  recorded += a.feed(from_b.substr(16));
  b.feed(recorded.substr(kHelloBytes));
  ASSERT_EQ(b.state(), Handshake::State::proved);
  Handshake again(identity(HandshakeRole::listener, 3));  // a new connection has a new nonce
  again.feed(recorded.substr(0, 16));
  again.feed(recorded.substr(16, kHelloBytes - 16));
  again.feed(recorded.substr(kHelloBytes));
  EXPECT_EQ(again.state(), Handshake::State::refused);
}

TEST(Handshake, ones_own_words_are_no_proof) {
  Handshake mirror(listener());
  mirror.feed(mirror.hello().substr(0, 16));
  EXPECT_EQ(mirror.state(), Handshake::State::refused);
  // With the role turned round, the nonce gives it away.
  Handshake turned(listener());
  std::string hello = turned.hello();
  hello[12] = static_cast<char>(HandshakeRole::connector);
  turned.feed(hello.substr(0, 16));
  turned.feed(hello.substr(16));
  EXPECT_EQ(turned.state(), Handshake::State::refused);
  EXPECT_NE(turned.refusal().message().find("plays our own hello back"), std::string::npos);
}

TEST(Handshake, unprintable_text_never_reaches_a_message) {
  EXPECT_EQ(printable("a\n\x1b\x80z"), "a???z");
  EXPECT_EQ(printable(std::string(100, 'x'), 5), "xxxxx");
}

}  // namespace
}  // namespace tutti::core::test
