"""The sockets of a gateway: one that cannot be opened is said with the flag that names another."""

import logging
import socket

import pytest

from smg_core.config import config_of
from smg_core.server.listeners import open_listeners


@pytest.mark.parametrize(
    ("section", "flag"), [("server", "--port"), ("admin", "--admin-port"), ("metrics", "--metrics-port")]
)
def test_a_port_that_is_taken_is_said_with_the_flag_that_names_another(
    section: str, flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.CRITICAL):
        port = taken.getsockname()[1]
        opened = open_listeners(config_of({"server": {"port": 0}, section: {"port": port}}))

    assert opened is None
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; {flag} names another" in caplog.text
