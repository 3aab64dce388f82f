"""The state of a Realtime session: its settings, its conversation, its states, and the events that go over it. Pure."""
