"""Files as values: addresses, formats, stores and how the servers reach them."""
