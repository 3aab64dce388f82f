"""What a Realtime session is: its settings, its conversation, its states, and the events that go over it. Pure."""
