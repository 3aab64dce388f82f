"""The workers of one gateway: connected, discovered, added and removed in all its processes, their caches listened to."""
