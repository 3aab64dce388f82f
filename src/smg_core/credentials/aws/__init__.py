"""AWS's credentials: found where AWS's own libraries find them, and what is signed with them.

signer      `AwsSigner`: signs each request, and learns how far the clock is off (edge)
chain       where keys are found: environment, profiles, web identity, containers, instances (edge)
profiles    what the shared files of AWS say of a profile
sts         requests for the keys of a role, and their answers
documents   keys as JSON, which programs, containers and instances give
sigv4       the signature itself
"""
