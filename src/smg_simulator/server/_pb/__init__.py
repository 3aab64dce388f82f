"""Made by tools/proto.py; do not edit."""
