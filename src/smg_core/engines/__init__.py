"""How the gateway speaks to inference engines. Each file says more in its own docstring.

    base             the records and roles: requests, outputs, facts about an engine, `Engine`, `Codec`, `Transport`
    client           `EngineClient`: one codec on one transport, for engines that take token ids (edge)
    slices           cuts a long answer that comes at once into slices
    openai           `OpenAiEngine`: a server of the Chat Completions API, which takes whole requests
    settings         the settings of connections to engines
    dialects         the table of dialects; each row loads its folder when it is first asked for
    vllm, neutral, mlx, sglang, trtllm, tokenspeed
                     one folder a dialect: codec, calls beside Generate, media and how they are packed
    carried          refuses by name what a dialect's messages have no field for
    shared_calls     replies that several dialects share: health, load, the tokenizer
    decoding         the decoder of the dialects that send chunks and a closing message
    fan_out          several choices as a call for each
    h2               gRPC over our own HTTP/2 connection, the default transport
    grpc_transport   gRPC over the grpcio library, the reference transport (edge)
    target           what a worker's URL means: scheme, address, TLS
    status           gRPC, HTTP and HTTP/2 status codes as errors of this package
    wire             numbers and token ids as protobuf bytes, for what codecs frame by hand
    answers          what the decoders of all dialects have in common
    tensors          protobuf messages that hold tensors, framed so that the tensors are copied once
    _pb              generated: the messages of the neutral contract (tools/proto.py makes them)

A new dialect is a folder beside `vllm` and a row in `dialects`; an installed package can add one through the entry point group
`smg.engines`.
"""
