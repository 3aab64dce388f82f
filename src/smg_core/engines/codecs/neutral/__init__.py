"""The neutral dialect, `smg.engine.v1.Engine` (proto/), the contract that anybody's engine may speak.

codec      `NeutralCodec`: Generate put and read, and all calls in one place
calls      the calls beside Generate, and what an engine's declared capabilities mean
media      media as the contract's messages
packing    `NeutralPacking`: prepared media into `media`'s shapes (needs numpy)
"""
