"""The common writing of Google's two APIs, generateContent and Interactions. Pure.

Begin with `values`, the parts that both have.
"""
