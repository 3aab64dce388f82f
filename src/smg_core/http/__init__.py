"""One HTTP exchange, whatever server it came through: head, body, answer, route table, envelopes, bounds. Knows no API."""
