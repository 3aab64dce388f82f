"""Placement: which workers a request may or should go to, by their labels, before a policy chooses among them.

Begin with `rules`, what a line of `routing.placement` says; `placing` makes of the rules what holds for one request. A gateway
without such lines loads nothing of this.
"""
