// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/replay.h"

#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <rte_ip.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "traffic/frames/header_stack.h"
#include "traffic/frames/signature.h"

namespace headrace::traffic {
namespace {

using nlohmann::json;

/// A capture file, removed by the destructor.
class Capture {
 public:
  explicit Capture(int datalink = DLT_EN10MB) {
    const int fd = ::mkstemp(path_.data());
    handle_ = pcap_open_dead_with_tstamp_precision(datalink, 65535, PCAP_TSTAMP_PRECISION_NANO);
    dumper_ = pcap_dump_fopen(handle_, ::fdopen(fd, "wb"));
    pcap_dump_flush(dumper_);
  }
  ~Capture() {
    pcap_dump_close(dumper_);
    pcap_close(handle_);
    std::remove(path_.c_str());
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void add(const std::vector<uint8_t>& packet, int64_t nanoseconds, uint32_t cut = 0) {
    pcap_pkthdr header{};
    header.ts.tv_sec = 1000 + nanoseconds / 1'000'000'000;
    header.ts.tv_usec = nanoseconds % 1'000'000'000;
    header.len = static_cast<uint32_t>(packet.size());
    header.caplen = header.len - cut;
    pcap_dump(reinterpret_cast<u_char*>(dumper_), &header, packet.data());
    pcap_dump_flush(dumper_);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/headrace-replay-XXXXXX";
  pcap_t* handle_;
  pcap_dumper_t* dumper_;
};

/// A packet with these headers and `payload` bytes of 0x5A, with the stack's checksums.
std::vector<uint8_t> packet(const char* layers, uint16_t payload) {
  const auto stack = HeaderStack::from_json(json::parse(layers), "");
  const Headers headers = stack->build(static_cast<uint16_t>(stack->length() + payload));
  std::vector<uint8_t> bytes = headers.bytes;
  bytes.resize(bytes.size() + payload, 0x5A);
  return bytes;
}

struct Sent {
  std::array<uint8_t, 2048> bytes;
  uint16_t length;

  Sent(const Replay& replay, uint32_t number) {
    bytes.fill(0xEE);
    length = replay.write(bytes.data(), number);
    Signature{.stream = 1, .sequence = 0xCAFE1234, .time = 0x5566778899, .run = 3}.write(
        bytes.data() + length - Signature::kBytes);
    replay.finish(bytes.data(), number);
  }
  [[nodiscard]] unsigned be16(size_t at) const { return bytes[at] << 8U | bytes[at + 1]; }
  template <typename T>
  [[nodiscard]] const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(bytes.data() + offset);
  }
};

TEST(Replay, PayloadsKeepTheirSizeAndChecksumsAreMadeRight) {
  Capture capture;
  capture.add(packet(R"(["ethernet", "ipv4", "udp"])", 101), 0);
  capture.add(packet(R"(["ethernet", "ipv4", "tcp"])", 100), 1000);
  capture.add(packet(R"(["ethernet", {"vlan": {"vid": 3}}, "ipv6", "tcp"])", 99), 2500);
  capture.add(packet(R"(["ethernet", "ipv6", "udp"])", 98), 2400);
  const auto replay = Replay::open(capture.path());
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_EQ(replay->packets(), 4U);
  EXPECT_EQ(replay->flows(), 4U);
  EXPECT_EQ(replay->times_ns(), (std::vector<uint64_t>{0, 1000, 2500, 2500})) << "never decreasing";
  EXPECT_EQ(replay->period_ns(), 2500U + 833);

  const Sent udp(*replay, 0);
  EXPECT_EQ(udp.length, 42 + 101);
  EXPECT_EQ(udp.be16(40), 0U) << "no checksum";
  EXPECT_EQ(udp.bytes[42], 0x5A) << "the payload before the signature is unchanged";
  EXPECT_EQ(udp.bytes[udp.length - Signature::kBytes - 1], 0x5A);
  EXPECT_EQ(rte_raw_cksum(udp.bytes.data() + 14, 20), 0xffff);
  const Sent tcp(*replay, 1);
  EXPECT_EQ(rte_ipv4_udptcp_cksum_verify(tcp.at<rte_ipv4_hdr>(14), tcp.at<void>(34)), 0);
  const Sent tcp6(*replay, 2);
  EXPECT_EQ(tcp6.length, 18 + 40 + 20 + 99);
  EXPECT_EQ(rte_ipv6_udptcp_cksum_verify(tcp6.at<rte_ipv6_hdr>(18), tcp6.at<void>(58)), 0);
  const Sent udp6(*replay, 3);
  EXPECT_EQ(rte_ipv6_udptcp_cksum_verify(udp6.at<rte_ipv6_hdr>(14), udp6.at<void>(54)), 0);
}

TEST(Replay, ShortPayloadsAndPaddingMakeRoom) {
  Capture capture;
  std::vector<uint8_t> ack = packet(R"(["ethernet", "ipv4", "tcp"])", 0);
  ack.resize(60);  // as a device pads it
  capture.add(ack, 0);
  capture.add(packet(R"(["ethernet", "ipv4", "udp"])", 3), 10);
  capture.add(packet(R"(["ethernet", "arp"])", 0), 20);
  const auto replay = Replay::open(capture.path());
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_EQ(replay->flows(), 2U);

  const Sent tcp(*replay, 0);
  EXPECT_EQ(tcp.length, 54 + Signature::kBytes);
  EXPECT_EQ(tcp.be16(16), 54U + Signature::kBytes - 14) << "IPv4 length";
  EXPECT_EQ(rte_ipv4_udptcp_cksum_verify(tcp.at<rte_ipv4_hdr>(14), tcp.at<void>(34)), 0);
  const Sent udp(*replay, 1);
  EXPECT_EQ(udp.length, 60);
  EXPECT_EQ(udp.be16(38), 60U - 34) << "UDP length";
  EXPECT_EQ(rte_raw_cksum(udp.bytes.data() + 14, 20), 0xffff);
  const Sent arp(*replay, 2);
  EXPECT_EQ(arp.length, 60);
  EXPECT_EQ(arp.be16(12), 0x0806U);

  EXPECT_EQ(replay->sizes().sizes, (std::vector<uint16_t>{64, 72}));
  EXPECT_EQ(replay->sizes().weights, (std::vector<uint32_t>{2, 1}));
  EXPECT_NEAR(replay->sizes().mean(), (64 * 2 + 72) / 3.0, 1e-9);
}

TEST(Replay, LyingHeadersAreNotBelieved) {
  Capture capture;
  auto lengths = packet(R"(["ethernet", "ipv4", "udp"])", 20);
  lengths[16] = 0xff;  // an IPv4 length beyond the packet
  capture.add(lengths, 0);
  auto header = packet(R"(["ethernet", "ipv4", "udp"])", 20);
  header[14] = 0x41;  // an IPv4 header of 4 bytes
  capture.add(header, 1);
  auto tcp = packet(R"(["ethernet", "ipv4", "tcp"])", 20);
  tcp[46] = 0xf0;  // a TCP header of 60 bytes in 40
  capture.add(tcp, 2);
  capture.add(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0x81, 0x00}, 3);
  const auto replay = Replay::open(capture.path());
  ASSERT_TRUE(replay) << replay.error().message;
  for (uint32_t i = 0; i < replay->packets(); ++i) {
    const Sent sent(*replay, i);
    EXPECT_TRUE(Signature::read(sent.bytes.data() + sent.length - Signature::kBytes));
    EXPECT_GE(sent.length, 60);
  }
}

TEST(Replay, WhatCannotBeReplayedIsRefused) {
  const auto message = [](const std::string& path) {
    const auto replay = Replay::open(path);
    return replay ? std::string() : replay.error().message;
  };
  EXPECT_NE(message("/nonexistent.pcap").find("No such file"), std::string::npos);
  const Capture empty;
  EXPECT_NE(message(empty.path()).find("no packets"), std::string::npos);
  Capture cut;
  cut.add(packet(R"(["ethernet", "ipv4", "udp"])", 100), 0, 10);
  EXPECT_NE(message(cut.path()).find("packet 1 is cut off"), std::string::npos);
  Capture other(DLT_RAW);
  other.add(packet(R"(["ethernet", "ipv4", "udp"])", 100), 0);
  EXPECT_NE(message(other.path()).find("not Ethernet"), std::string::npos);
  EXPECT_FALSE(message("/etc/hostname").empty());
}

}  // namespace
}  // namespace headrace::traffic
