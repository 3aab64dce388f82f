"""What Google's two APIs, generateContent and Interactions, write alike. Pure.

Begin with `values`, the parts that both have.
"""
