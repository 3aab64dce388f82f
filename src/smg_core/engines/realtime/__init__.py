"""Servers that have live sessions themselves, as engines: passed through, or translated from the Realtime API.

engine                      such a server: its health, its facts, and connections to it
forms                       how sessions are asked for at servers of each kind
connection                  one session there, over a WebSocket
turn                        one response there, as the call of an engine
live_socket                 a session of Gemini Live, as one of the Realtime API
live_translation            what its client says as messages of that server's, what the server says as events
live_settings, live_items, live_response, live_wire
                            its settings, what waits for its next response, a response, and what goes over the wire
"""
