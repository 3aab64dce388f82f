"""The dialect of llama.cpp's own HTTP server: `http_codec`."""
