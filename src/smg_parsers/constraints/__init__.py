"""Constraints for engines, by which calls and answers conform to tools and formats."""
