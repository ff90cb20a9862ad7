"""The room that says a secured broker's settings in Faust's words: they are given once, in librdkafka's.

What secures the connection is carried over, or refused: a client that silently left a credential out would be told
no by the broker, for a reason that nobody finds. Other settings of librdkafka have no meaning for Faust's client.
"""

import ssl
from collections.abc import Mapping

from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURES = ("sasl.", "ssl.", "security.", "enable.ssl.", "enable.sasl.")
_CARRIED = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location",
    "ssl.certificate.location", "ssl.key.location", "ssl.key.password", "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
})  # fmt: skip


class Unsupported(ValueError):
    """Client settings that this client can't be secured by; the text is a sentence."""


def credentials(client: Mapping[str, str]) -> CredentialsT | None:
    """What Faust is to identify itself by, from librdkafka's settings; None for a plain connection.

    Raises Unsupported, also where a certificate's file can't be read.
    """
    for name in client:
        if name.startswith(_SECURES) and name not in _CARRIED:
            known = ", ".join(sorted(_CARRIED))
            raise Unsupported(f"The client setting {name} can't be followed by the reconciler, which knows {known}.")
    protocol = client.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise Unsupported(
            f"The client setting security.protocol is {protocol!r}; it is one of {', '.join(_PROTOCOLS)}."
        )
    context = _context(client) if protocol.endswith("ssl") else None
    if protocol.startswith("sasl_"):
        return SASLCredentials(
            mechanism=_mechanism(client), username=_needed(client, "sasl.username"),
            password=_needed(client, "sasl.password"), ssl_context=context,
        )  # fmt: skip
    return None if context is None else SSLCredentials(context)


def _needed(client: Mapping[str, str], name: str) -> str:
    if not client.get(name):
        raise Unsupported(f"The client setting {name} is missing, which security.protocol calls for.")
    return client[name]


def _mechanism(client: Mapping[str, str]) -> str:
    # As librdkafka has it: either name will do, and without one it would be Kerberos.
    mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or "GSSAPI"
    if mechanism not in _MECHANISMS:
        raise Unsupported(
            f"The client setting sasl.mechanism is {mechanism}; the reconciler knows {', '.join(_MECHANISMS)}."
        )
    return mechanism


def _context(client: Mapping[str, str]) -> ssl.SSLContext:
    certificate = client.get("ssl.certificate.location")
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"))
        if certificate is not None:
            context.load_cert_chain(certificate, client.get("ssl.key.location"), client.get("ssl.key.password", ""))
    except OSError as error:  # an unreadable file, and whatever OpenSSL finds wrong in one
        raise Unsupported(f"The certificates that the client settings name can't be used: {error}.") from error
    if client.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if client.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
