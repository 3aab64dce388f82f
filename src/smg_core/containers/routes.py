"""The routes of containers, as OpenAI has them (edge).

Above: apis.ALL. Below: `work`, which loads their handlers.
"""

from collections.abc import Mapping

from smg_core.containers.work import ContainerWork
from smg_core.http.endpoint import Endpoint
from smg_core.http.routes import Route
from smg_core.json_types import JsonObject
from smg_core.serving.spec import ApiContext, ApiSpec
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SPEC"]


def _of_containers(name: str, summary: str) -> Operation:
    return Operation(name, summary, "containers", None, (OperationResponse(200, "It, or a list.", JsonObject),))


_ONE, _FILES = "/v1/containers/{id}", "/v1/containers/{id}/files"
_FILE = f"{_FILES}/{{file_id}}"
_OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("POST", "/v1/containers"): _of_containers("createContainer", "Make a container in which code can be run."),
    ("GET", "/v1/containers"): _of_containers("listContainers", "The containers that there are."),
    ("GET", _ONE): _of_containers("retrieveContainer", "A container."),
    ("DELETE", _ONE): _of_containers("deleteContainer", "Remove a container with its files."),
    ("POST", _FILES): _of_containers(
        "createContainerFile",
        "Put a file into a container: a form with `file`, or JSON with the `file_id` of a kept file.",
    ),
    ("GET", _FILES): _of_containers("listContainerFiles", "The files of a container."),
    ("GET", _FILE): _of_containers("retrieveContainerFile", "A file of a container, without its contents."),
    ("DELETE", _FILE): _of_containers("deleteContainerFile", "Remove a file of a container."),
    ("GET", f"{_FILE}/content"): Operation(
        "downloadContainerFile",
        "The contents of a file of a container.",
        "containers",
        None,
        (OperationResponse(200, "Its bytes.", None, "application/octet-stream"),),
    ),
}
"""What the routes take and give, by method and pattern; handlers go by the names of operations (`ContainerWork.handler`)."""


def container_routes(context: ApiContext) -> tuple[Route[Endpoint], ...]:
    """The routes."""
    work = ContainerWork.of(context.services)
    return tuple(
        Route(
            method,
            pattern,
            Endpoint(work.handler(about.name), "containers", reads_json=about.name == "createContainer", about=about),
        )
        for (method, pattern), about in _OPERATIONS.items()
    )


SPEC = ApiSpec((), {"containers": "Containers in which code is run, and their files"}, container_routes)
