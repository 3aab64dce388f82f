"""SGLang's /generate: types, decoder, encoders."""
