"""The version of the SDK: of every distribution, of the gateway and of its documents. The one place where it stands."""

__all__ = ["SDK_VERSION"]

SDK_VERSION = "0.1.0"
