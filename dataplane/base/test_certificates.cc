// SPDX-License-Identifier: Apache-2.0
#include "base/test_certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace headrace::test {
namespace {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using File = std::unique_ptr<std::FILE, Freed<std::fclose>>;

constexpr long kDay = 24L * 3600;

void must(bool done) {
  if (!done) std::abort();
}

/// A certificate of `key`, signed by `issuer`'s key; its own if `issuer` is null.
Certificate sign(EVP_PKEY* key, const std::string& name, X509* issuer, EVP_PKEY* issuer_key) {
  Certificate certificate(X509_new());
  static long serial = 1;
  // Version 1: a CA of version 3 would have to say that it is one.
  must(X509_set_version(certificate.get(), 0) == 1);
  must(ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++) == 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kDay);
  must(X509_set_pubkey(certificate.get(), key) == 1);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  must(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                  reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                  0) == 1);
  must(X509_set_issuer_name(certificate.get(),
                            issuer == nullptr ? subject : X509_get_subject_name(issuer)) == 1);
  must(X509_sign(certificate.get(), issuer_key == nullptr ? key : issuer_key, EVP_sha256()) > 0);
  return certificate;
}

void write(EVP_PKEY* key, const std::string& path) {
  const File file(std::fopen(path.c_str(), "w"));
  must(PEM_write_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
}

void write(X509* certificate, const std::string& path) {
  const File file(std::fopen(path.c_str(), "w"));
  must(PEM_write_X509(file.get(), certificate) == 1);
}

}  // namespace

Certificates::Certificates() {
  char name[] = "/tmp/headrace-tls-XXXXXX";
  must(::mkdtemp(name) != nullptr);
  directory_ = name;
  const Key key(EVP_EC_gen("P-256"));
  write(key.get(), directory_ + "/ca.key");
  write(sign(key.get(), "test CA " + directory_, nullptr, nullptr).get(), directory_ + "/ca.pem");
}

Certificates::~Certificates() {
  std::filesystem::remove_all(directory_);
}

TlsFiles Certificates::make(const std::string& name) {
  const File key_file(std::fopen((directory_ + "/ca.key").c_str(), "r"));
  const Key ca_key(PEM_read_PrivateKey(key_file.get(), nullptr, nullptr, nullptr));
  const File ca_file(std::fopen((directory_ + "/ca.pem").c_str(), "r"));
  const Certificate ca(PEM_read_X509(ca_file.get(), nullptr, nullptr, nullptr));
  const Key key(EVP_EC_gen("P-256"));
  const std::string base = directory_ + "/" + name;
  write(key.get(), base + ".key");
  write(sign(key.get(), name, ca.get(), ca_key.get()).get(), base + ".pem");
  return {base + ".key", base + ".pem", directory_ + "/ca.pem"};
}

}  // namespace headrace::test
