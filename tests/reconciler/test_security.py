"""A secured broker's settings are given once, in librdkafka's words: Faust follows them, or they are refused."""

import ssl
import threading
from pathlib import Path

import pytest
from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import AuthProtocol, SASLMechanism

from joingate_processors.reconciler import ReconcilerSettings, run_reconciler
from joingate_processors.reconciler.app import _app
from joingate_processors.reconciler.security import Unsupported, credentials

SASL = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "reconciler", "sasl.password": "s3cret"}


@pytest.mark.parametrize("client", [{}, {"log_level": "0"}, {"security.protocol": "PLAINTEXT"}])
def test_a_plain_connection_has_no_credentials(client: dict[str, str]) -> None:
    assert credentials(client) is None


@pytest.mark.parametrize(
    ("protocol", "seen"), [("SASL_PLAINTEXT", AuthProtocol.SASL_PLAINTEXT), ("sasl_ssl", AuthProtocol.SASL_SSL)]
)
def test_a_user_and_a_password_reach_the_client(protocol: str, seen: AuthProtocol) -> None:
    found = credentials({"security.protocol": protocol, **SASL})
    assert isinstance(found, SASLCredentials)
    assert (found.protocol, found.mechanism) == (seen, SASLMechanism.SCRAM_SHA_512)
    assert (found.username, found.password) == ("reconciler", "s3cret")


def test_certificates_are_verified_unless_that_was_switched_off() -> None:
    strict = credentials({"security.protocol": "SSL"})
    by_any_name = credentials({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"})
    lax = credentials({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"})
    contexts = [one.context for one in (strict, by_any_name, lax) if isinstance(one, SSLCredentials)]
    assert [(one.check_hostname, one.verify_mode) for one in contexts] == [
        (True, ssl.CERT_REQUIRED), (False, ssl.CERT_REQUIRED), (False, ssl.CERT_NONE),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("client", "named"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "TLS"}, "'tls'"),
        ({"ssl.keystore.location": "store.p12"}, "ssl.keystore.location"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}, "certificates"),
    ],
)
def test_what_can_not_be_followed_is_refused_by_name(client: dict[str, str], named: str) -> None:
    with pytest.raises(Unsupported) as caught:
        credentials(client)
    assert named in str(caught.value)


def test_the_app_is_given_them_and_a_start_without_sense_is_refused(tmp_path: Path) -> None:
    settings = ReconcilerSettings(
        bootstrap_servers="127.0.0.1:1", state_dir=tmp_path, client={"security.protocol": "SASL_PLAINTEXT", **SASL}
    )
    given = _app(settings, 1).conf.broker_credentials
    assert isinstance(given, SASLCredentials)
    assert given.username == "reconciler"
    wrong = ReconcilerSettings(bootstrap_servers="127.0.0.1:1", state_dir=tmp_path, client={"security.protocol": "X"})
    with pytest.raises(Unsupported):
        run_reconciler(wrong, threading.Event(), lambda status: None)
