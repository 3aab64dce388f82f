"""What one kind of engine is sent for a prompt, and how its output is read."""
