"""An engine that speaks chat: any server of the Chat Completions API behind the gateway, met as requests in and events out.

`body` and `messages` write a request, `words` refuses what the wire has no word for, `chunks` are the wire's types, `events`
reads the stream, `answers` reads everything else that such a server says, `address` reads its URL; all pure. `engine` waits.
"""
