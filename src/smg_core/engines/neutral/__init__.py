"""The neutral dialect, `smg.engine.v1.Engine` (proto/): `codec` puts requests and reads answers, `media` packs media tensors."""
