"""The admin door: a listener of its own with routes for those who run the gateway, never on the public listener."""
