"""JSON read as it arrives: values followed to their end, answers mended, and free text taken out of arguments."""
