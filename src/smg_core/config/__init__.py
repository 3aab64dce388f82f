"""Every setting of the gateway, gathered from the rooms, and the checks of a whole configuration."""
