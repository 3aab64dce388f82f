"""Tests for parsers, also for those of others: laws, transcripts, and the page of results."""
