"""The common part of all credentials: they are asked for, kept, renewed before they end, and sent.

renewed         `Renewed`: a value that is asked for anew before it ends, by one at a time (edge)
granted         `Granted`: a value with the times at which it is renewed, awaited and over
keys            keys from files, the environment and commands (edge)
programs        runs a program that writes a credential, within bounds (edge)
fields          signers that send a key or a token in one header (edge)
signing         `Signer`: who makes the headers of a request
asking          requests for tokens, under the rules of egress (edge)
token_answers   answers of OAuth with a token
"""
