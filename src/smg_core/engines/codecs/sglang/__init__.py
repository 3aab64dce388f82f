"""The SGLang dialect, `sglang.grpc.scheduler.SglangScheduler`.

codec      `SglangCodec`: Generate put and read, and all calls in one place
calls      the calls beside Generate, and `FACTS`, what SGLang can be asked
media      pictures as the dialect's messages
packing    `SglangPacking`: prepared pictures into `media`'s shapes (needs numpy)
"""
