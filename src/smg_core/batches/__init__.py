"""Files, and batches of requests in the forms of OpenAI and Anthropic, over one queue."""
