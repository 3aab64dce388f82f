"""Pictures that are made and changed by engines that can, as OpenAI's API has it.

Begin with `routes` (edge), whose row this is; `wire` has the bodies, `encode` the answers.
"""
