"""The TokenSpeed dialect, `tokenspeed.grpc.scheduler.TokenSpeedScheduler`.

codec      `TokenSpeedCodec`: Generate put and read, and all calls in one place
calls      the calls beside Generate, and `FACTS`, what TokenSpeed can be asked
media      media as the dialect's messages
packing    `TokenSpeedPacking`: prepared media into `media`'s shapes (needs numpy)
"""
