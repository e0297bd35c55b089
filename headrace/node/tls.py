# SPDX-License-Identifier: Apache-2.0
"""TLS of the REST API: the certificate and key of node.yaml, and self-signed ones.

TLS 1.3, and 1.2 with forward secrecy and authenticated ciphers alone. A certificate that is renewed
in its place is loaded without a restart: connections that stand keep the old one. If what is found
there is not usable the last good one stays in use, and the log says why.
"""

import asyncio
import datetime
import ipaddress
import logging
import os
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from watchfiles import awatch

from headrace.node.errors import ConfigError

log = logging.getLogger("headrace.node")

CERTIFICATE_FILE, KEY_FILE = "node.pem", "node.key"

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_CLOCKS_APART = datetime.timedelta(hours=1)
_UNTOLD_S = 60.0
"""How often the files are looked at untold: a network file system tells of no change."""


class Tls:
    """The server's end of TLS: `context` for its connections, `names` that the certificate has."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Loads both files.

        Raises:
            ConfigError: they cannot be read, do not fit, or others can read the key.
        """
        self._files = (certificate, key)
        self._seen = self._look()
        self.context = self._load()
        self.names: frozenset[str] = names_of(certificate)

    @property
    def folders(self) -> frozenset[Path]:
        """The folders in which a renewed certificate or key appears."""
        return frozenset(file.absolute().parent for file in self._files)

    def renew(self) -> bool:
        """Loads the files again if they have changed; says whether it did."""
        try:
            found = self._look()
            if found == self._seen:
                return False
            self._load()  # into a context of its own: a failed load must not harm the one in use
            self.context.load_cert_chain(*self._files)
            self.names = names_of(self._files[0])
        except (ConfigError, OSError) as error:
            log.warning("the certificate in use stays: %s", error)
            return False
        self._seen = found
        log.info("rest.tls: loaded the renewed certificate %s", self._files[0])
        return True

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        try:
            states = [file.stat() for file in self._files]
        except OSError as error:
            raise ConfigError("rest", f"rest.tls: {error.filename}: {error.strerror}") from error
        if states[1].st_mode & (stat.S_IROTH | stat.S_IWOTH):
            text = f"rest.tls.key: others may read {self._files[1]}; chmod o= {self._files[1]}"
            raise ConfigError("rest", text)
        return tuple((state.st_ino, state.st_mtime_ns, state.st_size) for state in states)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        certificate, key = self._files
        try:
            # An encrypted key is refused: there is nobody to ask for its password.
            context.load_cert_chain(certificate, key, password=_no_password)
        except OSError as error:  # also ssl.SSLError
            text = f"rest.tls: {certificate} and {key}: {error.strerror or error}"
            raise ConfigError("rest", text) from error
        return context


async def keep_renewed(tls: Tls | None) -> None:
    """Loads the certificate and its key again when something changes in their folders; for ever."""
    while tls is not None:
        try:
            async for _ in awatch(
                *tls.folders,
                watch_filter=None,
                recursive=False,
                yield_on_timeout=True,
                rust_timeout=round(_UNTOLD_S * 1000),
            ):
                tls.renew()
        except OSError as error:  # a folder is away, or the kernel's watches are used up
            log.warning("rest.tls: the folder of the certificate is not followed: %s", error)
            await asyncio.sleep(_UNTOLD_S)
            tls.renew()


def _no_password() -> str:
    raise ConfigError("rest", "rest.tls.key: the key is encrypted; the node needs it in the clear")


def names_of(certificate: Path) -> frozenset[str]:
    """The names and addresses that a certificate is for, in lower case; wildcards are left out.

    Raises:
        ConfigError: the file is no certificate.
    """
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    except (OSError, ValueError) as error:
        raise ConfigError("rest", f"rest.tls.certificate: {certificate}: {error}") from error
    texts = [*names.get_values_for_type(x509.DNSName)]
    texts += [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return frozenset(text.lower() for text in texts if "*" not in text)


def make_self_signed(directory: Path, names: Iterable[str], days: int) -> tuple[Path, Path]:
    """Writes a new key (ECDSA, P-256) and a certificate for `names` that it signs itself.

    The key is its user's alone. Files that are there already are replaced, the key first, so that a
    node that reads them in between finds a pair that does not fit and keeps what it has.

    Raises:
        ConfigError: a name is none, or the files cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [_general_name(name) for name in names]
    if not alternatives:
        raise ConfigError("tls", "a certificate needs at least one name")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace node")])
    now = datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    usage = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("crl_sign", "encipher_only", "decipher_only"),
        ),
        False,
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        # It is its own authority, and of nothing else: clients give it as --cacert.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), critical=True
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate_file, key_file = directory / CERTIFICATE_FILE, directory / KEY_FILE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _replace(key_file, secret, 0o600)
        _replace(certificate_file, made.public_bytes(serialization.Encoding.PEM), 0o644)
    except OSError as error:
        raise ConfigError("tls", f"{error.filename}: {error.strerror}") from error
    return certificate_file, key_file


def _replace(file: Path, content: bytes, mode: int) -> None:
    draft = file.with_name(f"{file.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as output:
        output.write(content)
    draft.replace(file)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        if not name or len(name) > 253 or any(c.isspace() or c in "/:*@" for c in name):
            raise ValueError
        return x509.DNSName(name)
    except ValueError:
        raise ConfigError("tls", f"{name!r} is neither a host's name nor an address") from None
