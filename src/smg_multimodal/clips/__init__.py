"""Clips as models take them: which frames (`sampling`), frames as pictures (`frames`) or rows of patches (`video`), and their
sound between them (`weaving`). Pure."""
