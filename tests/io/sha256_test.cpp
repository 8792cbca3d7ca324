#include "nsvq/io/files/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace nsvq {
namespace {

std::span<const std::byte> hashed_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(hashed_bytes(text));
  return hash.hex();
}

// The examples of FIPS 180-4 and NIST's short messages.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                   "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, EveryLengthAroundABlock) {
  // hashlib.sha256(b"".join(hashlib.sha256(b"x" * n).hexdigest().encode() for n in range(200)))
  std::string digests;
  for (int length = 0; length < 200; ++length) digests += sha256(std::string(length, 'x'));
  EXPECT_EQ(sha256(digests), "f61ffcc417e1f0e59eba2da7fa32fbe05b64e478b68c6bacf990455f00248b98");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  for (const size_t piece : {1, 3, 63, 64, 65, 200}) {
    Sha256 hash;
    for (size_t at = 0; at < text.size(); at += piece) {
      hash.add(hashed_bytes(std::string_view(text).substr(at, piece)));
      hash.hex();  // Asking leaves it as it was.
    }
    EXPECT_EQ(hash.hex(), sha256(text)) << piece;
  }
}

}  // namespace
}  // namespace nsvq
