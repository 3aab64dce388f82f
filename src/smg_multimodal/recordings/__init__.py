"""Recordings as models take them: log-mel features (`audio`), and recordings of any length for speech models (`speech`). Pure."""
