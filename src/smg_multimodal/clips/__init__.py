"""Clips as models take them: which frames (`sampling`), frames as pictures (`frames`), or rows of patches (`video`). Pure."""
