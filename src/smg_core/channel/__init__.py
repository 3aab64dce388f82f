"""The channel between the processes of one gateway: messages that reach all of them in one order, and state that lasts."""
