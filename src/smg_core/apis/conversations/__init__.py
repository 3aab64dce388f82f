"""OpenAI Conversations: the items that are stored, and their routes."""
