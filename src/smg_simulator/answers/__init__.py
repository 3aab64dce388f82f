"""The answers of the simulated engine: scripted replies, sentences from a seed, and text that satisfies a constraint.

Begin with `replies`, what users script. `prose` makes sentences and `chain` tokens that each follow from all before; `shapes`
satisfies a JSON schema, `expressions` a regular expression or a grammar, `structural_tags` nested formats. Pure.
"""
