"""The workers for a request, by their labels.

Begin with `rules`, what a line of `routing.placement` says; `placing` makes of the rules what holds for one request. A gateway
without such lines loads nothing of this.
"""
