"""Formats of other providers at the addresses of clouds that sell them.

vertex   Vertex AI: Gemini's format and Messages below publishers
"""
