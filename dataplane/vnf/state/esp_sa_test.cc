// SPDX-License-Identifier: Apache-2.0
// ESP against published vectors, and against OpenSSL as an independent implementation.
#include "vnf/state/esp_sa.h"

#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "packet/checksum.h"
#include "vnf/functions/test_support.h"

namespace headrace::vnf {
namespace {

using Suite = EspParameters::Suite;
using Direction = EspParameters::Direction;

Bytes hex(std::string_view text) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
    i += 2;
  }
  return bytes;
}

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes slice(const Bytes& bytes, size_t from, size_t size) {
  return {bytes.begin() + static_cast<long>(from), bytes.begin() + static_cast<long>(from + size)};
}

/// An outer IPv4 packet around `esp` (from the SPI on), without Ethernet.
Bytes outer(const Bytes& esp) {
  Ipv4Packet ip{.src = "192.0.2.2", .dst = "192.0.2.1", .proto = 50, .payload = esp};
  const Bytes frame = ip.build();
  return slice(frame, 14, frame.size() - 14);
}

class EspTest : public FunctionTest {
 protected:
  EspParameters parameters(Suite suite, Direction direction) {
    EspParameters p{.direction = direction, .suite = suite, .spi = 0x1001};
    p.key = hex("000102030405060708090a0b0c0d0e0f");
    p.auth_key.assign(auth_key_size(suite), 0x42);
    p.salt = {1, 2, 3, 4};
    p.outer_src = *parse_ipv4("192.0.2.2");
    p.outer_dst = *parse_ipv4("192.0.2.1");
    return p;
  }
  void open(const EspParameters& p) {
    auto made = EspSa::make(p);
    ASSERT_TRUE(made) << made.error().message;
    sa_ = *std::move(made);
  }
  /// Processes packets by the SA; `last_` is the outcome, the result is the packets done.
  std::vector<Bytes> run(const std::vector<Bytes>& in) {
    std::vector<rte_mbuf*> packets;
    for (const Bytes& bytes : in) packets.push_back(to_mbuf(bytes));
    last_ = sa_->process(packets);
    std::vector<Bytes> out;
    for (size_t i = 0; i < packets.size(); ++i) {
      const auto* data = rte_pktmbuf_mtod(packets[i], const uint8_t*);
      if (i < last_.done) out.emplace_back(data, data + rte_pktmbuf_pkt_len(packets[i]));
      rte_pktmbuf_free(packets[i]);
    }
    return out;
  }
  std::unique_ptr<EspSa> sa_;
  EspSa::Outcome last_{};
};

/// AES-128-GCM by OpenSSL: the ciphertext of `text`, followed by the tag.
Bytes gcm_by_openssl(const EspParameters& p, const Bytes& iv, const Bytes& aad, const Bytes& text) {
  const Bytes nonce = join({Bytes(p.salt.begin(), p.salt.end()), iv});
  Bytes sealed(text.size() + 16);
  int size = 0;
  auto* context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nullptr, p.key.data(), nonce.data());
  EVP_EncryptUpdate(context, nullptr, &size, aad.data(), static_cast<int>(aad.size()));
  EVP_EncryptUpdate(context, sealed.data(), &size, text.data(), static_cast<int>(text.size()));
  EVP_EncryptFinal_ex(context, sealed.data() + size, &size);
  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, sealed.data() + text.size());
  EVP_CIPHER_CTX_free(context);
  return sealed;
}

/// The first packet of draft-mcgrew-gcm-test-01, the test vectors of RFC 4106: AES-128. It has an
/// extended sequence number and the next header 1, which isn't tunnel mode. The packet under test
/// has neither, so one octet of its ciphertext and the tag differ; OpenSSL computes both, after it
/// has reproduced the published packet.
TEST_F(EspTest, OpensThePublishedGcmPacket) {
  auto p = parameters(Suite::aes_gcm, Direction::open);
  p.key = hex("4c80cdefbb5d10da906ac73c3613a634");
  p.salt = {0x2e, 0x44, 0x3b, 0x68};
  p.spi = 0x00004321;
  p.replay_window = 0;
  const Bytes inner =
      hex("45000048699a000080114db7c0a80102c0a801010a9bf15638d3010000010000"
          "00000000045f736970045f756470037369700963796265726369747902646b00"
          "0021000101020201");
  const Bytes published =
      hex("fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34"
          "cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce"
          "61bc17d768fd9732459018148f6cbe722fd04796562dfdb4");
  const Bytes header = hex("0000432187654321");
  const Bytes iv = hex("4956ed7e3b244cfe");
  ASSERT_EQ(gcm_by_openssl(p, iv, join({header, Bytes(4)}), inner), published);
  Bytes tunnelled = inner;
  tunnelled.back() = 4;
  const Bytes sealed = gcm_by_openssl(p, iv, header, tunnelled);
  const Bytes untunnelled = gcm_by_openssl(p, iv, header, inner);
  ASSERT_EQ(slice(sealed, 0, inner.size() - 1), slice(published, 0, inner.size() - 1));
  open(p);
  const auto out = run({outer(join({header, iv, sealed}))});
  ASSERT_EQ(last_.done, 1U);
  EXPECT_EQ(out[0], slice(inner, 0, inner.size() - 4)) << "without padding and trailer";
  run({outer(join({header, iv, untunnelled}))});
  EXPECT_EQ(last_.failed, 1U) << "a next header that is no tunnel's";
}

/// RFC 3602, 4, case 7: a ping in tunnel mode. The RFC leaves authentication out; OpenSSL computes
/// it here.
TEST_F(EspTest, OpensThePublishedCbcPacket) {
  auto p = parameters(Suite::aes_cbc_hmac_sha1, Direction::open);
  p.key = hex("0123456789abcdef0123456789abcdef");
  p.spi = 0x8765;
  open(p);
  const Bytes ping = hex(
      "45000054090400004001f988c0a87b03c0a87bc808009f76a90a01 00b49c083d02a2040008090a0b0c0d0e0f"
      "101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637");
  Bytes esp =
      hex("00008765 00000002 f4e765244f6407adf13dc1380f673f37"
          "773b5241a4c449225e4f3ce5ed611b0c237ca96cf74a93013c1b0ea1a0cf70f8"
          "e4ecaec78ac53aad7a0f022b859243c647752e94a859352b8a4d4d2decd136e5"
          "c177f132ad3fbfb2201ac9904c74ee0a109e0ca1e4dfe9d5a100b842f1c22f0d");
  std::array<uint8_t, EVP_MAX_MD_SIZE> mac{};
  HMAC(EVP_sha1(), p.auth_key.data(), static_cast<int>(p.auth_key.size()), esp.data(), esp.size(),
       mac.data(), nullptr);
  esp.insert(esp.end(), mac.begin(), mac.begin() + 12);
  const auto out = run({outer(esp)});
  ASSERT_EQ(last_.done, 1U);
  EXPECT_EQ(out[0], ping);
}

/// A sealed packet decrypted by OpenSSL: the inner packet without the trailer; empty if the tag is
/// wrong.
Bytes opened_by_openssl(const EspParameters& p, const Bytes& packet) {
  const Bytes esp = slice(packet, 20, packet.size() - 20);
  const bool gcm = p.suite == Suite::aes_gcm;
  const size_t iv_size = gcm ? 8 : 16;
  const size_t icv_size = p.suite == Suite::aes_cbc_hmac_sha1 ? 12 : 16;
  const Bytes iv = slice(esp, 8, iv_size);
  const Bytes cipher = slice(esp, 8 + iv_size, esp.size() - 8 - iv_size - icv_size);
  Bytes icv = slice(esp, esp.size() - icv_size, icv_size);
  Bytes plain(cipher.size());
  int size = 0;
  auto* context = EVP_CIPHER_CTX_new();
  bool good = true;
  if (gcm) {
    const Bytes nonce = join({Bytes(p.salt.begin(), p.salt.end()), iv});
    EVP_DecryptInit_ex(context, EVP_aes_128_gcm(), nullptr, p.key.data(), nonce.data());
    EVP_DecryptUpdate(context, nullptr, &size, esp.data(), 8);
    EVP_DecryptUpdate(context, plain.data(), &size, cipher.data(), static_cast<int>(cipher.size()));
    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, 16, icv.data());
    good = EVP_DecryptFinal_ex(context, plain.data() + size, &size) == 1;
  } else {
    std::array<uint8_t, EVP_MAX_MD_SIZE> mac{};
    HMAC(icv_size == 12 ? EVP_sha1() : EVP_sha256(), p.auth_key.data(),
         static_cast<int>(p.auth_key.size()), esp.data(), esp.size() - icv_size, mac.data(),
         nullptr);
    good = Bytes(mac.begin(), mac.begin() + static_cast<long>(icv_size)) == icv;
    EVP_DecryptInit_ex(context, EVP_aes_128_cbc(), nullptr, p.key.data(), iv.data());
    EVP_CIPHER_CTX_set_padding(context, 0);
    EVP_DecryptUpdate(context, plain.data(), &size, cipher.data(), static_cast<int>(cipher.size()));
  }
  EVP_CIPHER_CTX_free(context);
  if (!good || plain.back() != 4) return {};
  const size_t padding = plain[plain.size() - 2];
  for (size_t i = 0; i < padding; ++i) {
    if (plain[plain.size() - 2 - padding + i] != i + 1) return {};  // RFC 4303, 2.4
  }
  plain.resize(plain.size() - 2 - padding);
  return plain;
}

TEST(ReplayWindow, TakesEachNumberOnce) {
  for (const uint32_t size : {1, 31, 64, 65, 1000}) {
    ReplayWindow window(size, false);
    EXPECT_FALSE(window.take(0)) << "no packet has the number 0";
    uint64_t top = 0;
    std::vector<bool> taken(20001);
    uint64_t random = 1;
    for (int i = 0; i < 20000; ++i) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      const uint64_t step = (random >> 33) % (i % 100 == 0 ? 200 : 3);
      const uint64_t back = (random >> 40) % (2 * size + 2);
      const uint64_t number = i % 3 == 0 ? top + step : (top > back ? top - back : 0);
      if (number >= taken.size()) break;
      const bool is_new = number != 0 && (number > top || top - number < size) && !taken[number];
      EXPECT_EQ(window.may_be_new(number), is_new) << number << " after " << top;
      EXPECT_EQ(window.take(number), is_new);
      if (is_new) taken[number] = true;
      top = std::max(top, is_new ? number : top);
    }
  }
}

TEST(ReplayWindow, InfersTheUpperHalf) {
  ReplayWindow window(64, true);
  EXPECT_EQ(window.whole(5), 5U);
  ASSERT_TRUE(window.take(0xffff'fff0));
  EXPECT_EQ(window.whole(0xffff'ffff), 0xffff'ffffU);
  EXPECT_EQ(window.whole(3), 0x1'0000'0003U) << "beyond the end begins the next half";
  ASSERT_TRUE(window.take(0x1'0000'0003));
  EXPECT_EQ(window.whole(0xffff'fff5), 0xffff'fff5U) << "late, from the half before";
  EXPECT_TRUE(window.take(window.whole(0xffff'fff5)));
  EXPECT_FALSE(window.take(window.whole(0xffff'fff0)));
}

class EspSuiteTest : public EspTest, public ::testing::WithParamInterface<Suite> {};

TEST_P(EspSuiteTest, OpenSslOpensWhatWeSeal) {
  const auto p = parameters(GetParam(), Direction::seal);
  open(p);
  std::vector<Bytes> inner;
  for (uint16_t size = 0; size < 40; ++size) {
    const Bytes frame = udp_frame({}, 1, 2, Bytes(size, static_cast<uint8_t>(size)));
    inner.push_back(slice(frame, 14, frame.size() - 14));
  }
  inner.push_back(Bytes(inner.back()));
  const auto out = run(inner);
  ASSERT_EQ(out.size(), inner.size());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(opened_by_openssl(p, out[i]), inner[i]) << i;
    EXPECT_EQ(read32(out[i], 20), p.spi);
    EXPECT_EQ(read32(out[i], 24), i + 1) << "the sequence begins with 1 (RFC 4303, 3.3.3)";
    EXPECT_EQ(read16(out[i], 2), out[i].size());
    EXPECT_EQ(packet::checksum({out[i].data(), 20}), 0);
  }
  EXPECT_NE(slice(out[39], 28, 8), slice(out[40], 28, 8)) << "IVs don't repeat";
}

TEST_P(EspSuiteTest, OpensWhatItSeals) {
  for (const size_t key : {16, 24, 32}) {
    for (const bool esn : {false, true}) {
      auto p = parameters(GetParam(), Direction::seal);
      p.key.resize(key, 7);
      p.extended_sequence = esn;
      open(p);
      std::vector<Bytes> inner;
      for (const size_t size : {0, 1, 300, 1400}) {
        const Bytes frame = udp_frame({}, 1, 2, Bytes(size, 9));
        inner.push_back(slice(frame, 14, frame.size() - 14));
      }
      const auto sealed = run(inner);
      p.direction = Direction::open;
      open(p);
      EXPECT_EQ(run(sealed), inner) << key << (esn ? " with ESN" : "");
    }
  }
}

TEST_P(EspSuiteTest, RefusesWhatWasChangedReplayedOrIsOld) {
  auto p = parameters(GetParam(), Direction::seal);
  open(p);
  const Bytes frame = udp_frame({}, 1, 2, Bytes(50, 9));
  std::vector<Bytes> sealed;
  for (int i = 0; i < 300; ++i) {
    for (auto& one : run({slice(frame, 14, frame.size() - 14)})) sealed.push_back(std::move(one));
  }
  p.direction = Direction::open;
  open(p);
  EXPECT_EQ(run({sealed[250], sealed[249]}).size(), 2U) << "out of order, but within the window";
  EXPECT_EQ(run({sealed[250], sealed[249]}).size(), 0U);
  EXPECT_EQ(last_.refused + last_.failed, 2U) << "replayed";
  EXPECT_EQ(run({sealed[100]}).size(), 0U);
  EXPECT_EQ(last_.refused, 1U) << "older than the window of 64";
  for (size_t at = 24; at < sealed[260].size(); ++at) {
    Bytes spoilt = sealed[260];
    spoilt[at] ^= 0x10;
    EXPECT_EQ(run({spoilt}).size(), 0U) << "octet " << at;
  }
  EXPECT_EQ(run({slice(sealed[260], 0, 30)}).size(), 0U) << "cut off";
  EXPECT_EQ(run({sealed[260]}).size(), 1U) << "forged packets don't advance the window";
}

TEST_P(EspSuiteTest, PutsWhatFailedBehindWhatIsDone) {
  auto p = parameters(GetParam(), Direction::seal);
  open(p);
  const Bytes frame = udp_frame({}, 1, 2, Bytes(50, 9));
  const auto sealed = run(std::vector<Bytes>(6, slice(frame, 14, frame.size() - 14)));
  p.direction = Direction::open;
  open(p);
  Bytes spoilt = sealed[1];
  spoilt[40] ^= 1;
  run({sealed[0]});
  EXPECT_EQ(run({sealed[0], spoilt, sealed[2], sealed[0], sealed[3]}).size(), 2U);
  EXPECT_EQ(last_.refused, 2U);
  EXPECT_EQ(last_.failed, 1U);
}

INSTANTIATE_TEST_SUITE_P(All, EspSuiteTest,
                         ::testing::Values(Suite::aes_gcm, Suite::aes_cbc_hmac_sha1,
                                           Suite::aes_cbc_hmac_sha256));

TEST_F(EspTest, RefusesKeysOfAWrongLength) {
  auto p = parameters(Suite::aes_gcm, Direction::seal);
  p.key.resize(17);
  EXPECT_THAT(EspSa::make(p).error().message, ::testing::HasSubstr("16, 24 or 32 octets, not 17"));
  p = parameters(Suite::aes_cbc_hmac_sha256, Direction::seal);
  p.auth_key.resize(20);
  EXPECT_THAT(EspSa::make(p).error().message, ::testing::HasSubstr("32 octets, not 20"));
}

}  // namespace
}  // namespace headrace::vnf
