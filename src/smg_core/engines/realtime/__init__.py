"""Servers that speak the Realtime API themselves, as engines: their sessions are passed through.

engine                      such a server: its health, its facts, and connections to it
connection                  one session there, over a WebSocket
turn                        one response there, as the call of an engine
"""
