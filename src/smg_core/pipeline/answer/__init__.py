"""The answer to one client, and one engine call as it sees it."""
