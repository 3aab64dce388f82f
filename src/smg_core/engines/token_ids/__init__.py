"""The client of engines that take token ids and give token ids back.

client           `EngineClient`: one codec on one transport (edge)
fan_out          several choices as a call for each
slices           cuts a long answer that comes at once into slices
http_transport   `HttpTransport`: HTTP in the role of gRPC's transports (edge)
"""
