"""Whose requests come by a certificate: what its names may be."""

import pytest

from smg_core.apis import PERMISSIONS
from smg_core.auth.certificates import Certificate, CertificateCallers
from smg_core.auth.roles import Roles
from smg_core.errors import AuthenticationFailed


@pytest.mark.parametrize("name", ["spiffe://a/b\nforged", "spiffe://a/\x00", "spiffe://a/" + "x" * 255, "spiffe://a/ "])
def test_a_certificate_whose_name_is_no_name_of_a_principal_is_nobodys(name: str) -> None:
    callers = CertificateCallers(["uri:spiffe://a/* tenant=acme"], Roles((), PERMISSIONS))

    assert callers.caller(Certificate((("uri", "spiffe://a/b"),), 2.0), 1.0).principal == "spiffe://a/b"
    with pytest.raises(AuthenticationFailed):
        callers.caller(Certificate((("uri", name),), 2.0), 1.0)
