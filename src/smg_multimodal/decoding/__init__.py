"""From a file's bytes to pixels, frames, samples or text, within budgets, in the asking process.

Begin with `reader`, the role. `formats` and `containers` say from the first bytes what a file is, `costs` what it will take,
`decode` reads pictures (`fast_*` the plain ones), `clips` and `sounds` what moves and sounds, `pdf` documents
(`pdf_parts` what they may cost, `pdf_pictures` what they show).
"""
