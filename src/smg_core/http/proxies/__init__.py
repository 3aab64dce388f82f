"""Settings of the proxies before the gateway."""
