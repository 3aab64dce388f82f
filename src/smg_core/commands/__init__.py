"""The commands of `smg-gateway` beside `serve`."""
