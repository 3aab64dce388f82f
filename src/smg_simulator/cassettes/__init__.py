"""Cassettes: what clients asked a server and what it answered, recorded between them and asked again. Exports nothing.

- `cassette`: one exchange as a line of a file, redacted, and the reading of such a file
- `said`: what an answer says, of every API alike: text, reasoning, calls, end, tokens
- `recording` (edge): the proxy that records
- `replaying` (edge): sends the requests of a cassette again, at their times
- `difference`: what is different of two answers, and of all together
"""
