"""What the handlers of stored things share: lists, locks, expiry, and the history while the gateway runs."""
