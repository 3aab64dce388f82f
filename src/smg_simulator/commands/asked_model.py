"""The model for a command that names none: the only one that the server has (edge).

Above: the commands. Below: smg_core.commands.asked_server.
"""

from collections.abc import Mapping

import httpx

from smg_core.commands.asked_server import status_refusal
from smg_core.settings import ConfigError

__all__ = ["ModelNotNamed", "model_to_ask"]

PATIENCE_S = 30.0


class ModelNotNamed(Exception):
    """The server does not say which models it serves: why, for a person."""


def model_to_ask(url: str, headers: Mapping[str, str], key: str) -> str:
    """The model of the server; `key` names where its key is read from. Raises ConfigError where it has none or several, and
    ModelNotNamed."""
    try:
        answer = httpx.get(f"{url}/v1/models", headers=dict(headers), timeout=PATIENCE_S)
        if answer.status_code != httpx.codes.OK:
            raise ModelNotNamed(
                f"{url} does not say which models it serves: {status_refusal(answer.status_code, '/v1/models', key)}"
            )
        names = [str(each["id"]) for each in answer.json()["data"]]
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelNotNamed(f"{url} cannot be asked: {error}") from None
    except (ValueError, KeyError, TypeError):
        raise ModelNotNamed(f"{url} does not say which models it serves: give --model") from None
    if len(names) != 1:
        raise ConfigError(f"give --model; there are {', '.join(names) or 'none'}")
    return names[0]
