"""The exception for a request that the embedded engine refuses. Above: every module of the room."""

__all__ = ["Refused"]


class Refused(ValueError):
    """The request is refused with `message`; `code` is the name of the gRPC status."""

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
