"""What an engine is told so that calls, and answers, conform to tools and formats."""
